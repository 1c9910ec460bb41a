package olm

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
)

// owning makes the CSV own a CustomResourceDefinition.
func owning(crd *apiextensionsv1.CustomResourceDefinition) edit {
	return func(c *csv) {
		c.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{
			{Name: crd.Name, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.Kind},
		}
	}
}

// changeGroup patches the tenant's OperatorGroup as the cluster administrator.
func changeGroup(tn *env.Tenant, change func(og *operatorsv1.OperatorGroup)) {
	tn.T.Helper()
	og := &operatorsv1.OperatorGroup{}
	require.NoError(tn.T, tn.Get("group", og))
	before := og.DeepCopy()
	change(og)
	require.NoError(tn.T, cluster.Client.Patch(tn.T.Context(), og, client.MergeFrom(before)))
}

func TestFailsWhileAnotherGroupProvidesTheAPI(t *testing.T) {
	t.Parallel()
	first, second := cluster.Tenant(t), cluster.Tenant(t)
	crd := env.CRD("rivals", first.Namespace+".example.com", "Rival")
	first.Create(crd)
	shared := first.Other(nil)
	for _, tn := range []*env.Tenant{first, second} {
		grant(tn)
		tn.Grant(shared, append(manageRBAC(), readConfigMaps())...)
		tn.Group(env.AccountName, shared)
	}
	updates := first.Grant(shared, rule(crd.Spec.Group, "rivals", "update"))
	first.Grant(first.Namespace, rule("operators.coreos.com", "operatorgroups", "patch"))
	newCSV(first, owning(crd))
	requireSucceeded(first)
	api := "Rival." + crd.Spec.Versions[0].Name + "." + crd.Spec.Group
	first.Eventually(func(c *assert.CollectT) {
		og := &operatorsv1.OperatorGroup{}
		assert.NoError(c, first.Get("group", og))
		assert.Equal(c, api, og.Annotations["olm.providedAPIs"])
	})

	// The annotation of another group has no effect, but an installed operator has.
	newCSV(second, owning(crd))
	got := requirePhase(second, failed, "InterOperatorGroupOwnerConflict")
	require.Equal(t, "intersecting operatorgroups provide the same apis", got.Status.Message)
	requireSucceeded(first)

	// Once the first account may no longer manage the API there, it does not prevent other operators.
	require.NoError(t, cluster.Client.Delete(t.Context(), updates))
	requireSucceeded(second)

	changeGroup(second, func(og *operatorsv1.OperatorGroup) { og.Spec.StaticProvidedAPIs = true })
	got = requirePhase(second, failed, "CannotModifyStaticOperatorGroupProvidedAPIs")
	require.Equal(t, "static provided api operatorgroup cannot be modified by these apis", got.Status.Message)
	changeGroup(second, func(og *operatorsv1.OperatorGroup) {
		metav1.SetMetaDataAnnotation(&og.ObjectMeta, "olm.providedAPIs", api)
	})
	requireSucceeded(second)

	requireCondition(second, "group", "ProvidedAPIsPublished", metav1.ConditionFalse, "AccountLacksPermissions")
	requireCondition(second, "group", "TargetsLabeled", metav1.ConditionFalse, "AccountLacksPermissions")
}
