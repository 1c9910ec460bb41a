package e2e

import (
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// brings returns a tenant and an API group that no other tenant uses. The tenant's account may write the
// CustomResourceDefinition of the group's kind Gadget.
func brings(t *testing.T) (tn *env.Tenant, group string) {
	t.Helper()
	tn = following(t)
	group = tn.Namespace + ".example.com"
	tn.Grant(rbac.ClusterScope, rbacv1.PolicyRule{
		APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{"customresourcedefinitions"},
		ResourceNames: []string{"gadgets." + group}, Verbs: []string{"create", "patch"},
	})
	return tn, group
}

// lists returns the requests with which the tenant's account listed objects of the API group.
func lists(tn *env.Tenant, group string) []audit.Event {
	tn.T.Helper()
	events, err := cluster.Audited(tn.T.Context(), func(e audit.Event) bool {
		return e.Verb == "list" && e.Object != nil && e.Object.APIGroup == group && e.User.Username == scoped.Username(tn.Account.Namespace, tn.Account.Name)
	})
	require.NoError(tn.T, err)
	return events
}

func TestRefusesASchemaThatRejectsExistingObjects(t *testing.T) {
	t.Parallel()
	tn, group := brings(t)
	other := tn.Other(nil)
	all := env.Brings{
		"a.v1.0.0": env.Gadgets(group), "a.v2.0.0": env.Gadgets(group, env.Requiring("size")),
		"a.v3.0.0": env.Gadgets(group, env.Requiring("size"), env.Optional("color")), "a.v4.0.0": env.Gadgets(group, env.Requiring("size"), env.Optional("color")),
	}
	tn.PublishWith("catalog", all, releasesV1)
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")
	mine, foreign := tn.Gadget(group, "v1", tn.Namespace, "mine"), tn.Gadget(group, "v1", other, "foreign-gadget")
	before := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: "gadgets." + group}, before))

	tn.PublishWith("catalog", all, releasesV1, releasesV2)
	if !cluster.IsCompat() {
		listsOnlyIfAllowed(t, tn, group)
	}

	// If the account has the permission, the message names the invalid objects in the target namespaces and only counts those
	// in other namespaces.
	tn.Grant(rbac.ClusterScope, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"gadgets"}, Verbs: []string{"list"}})
	says(tn, "a", names.ConditionObjectsRefused, names.ReasonRefusedByRemit, fmt.Sprintf("error validating existing CRs against new CRD's schema for %q: "+
		"updated validation is too restrictive: 2 object(s) would be invalid in version v1: %s/mine (spec.size: Required value), 1 in namespaces that the OperatorGroup does not select",
		"gadgets."+group, tn.Namespace))
	for _, text := range []string{reportsOf(tn), conditionsOf(tn)} {
		require.Contains(t, text, tn.Namespace+"/mine")
		for _, others := range []string{"foreign-gadget", other, env.GadgetOwner} {
			require.NotContains(t, text, others)
		}
	}
	now := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(before), now))
	require.Equal(t, before.ResourceVersion, now.ResourceVersion, "nothing was written")
	inState(tn, "a", operatorsv1alpha1.SubscriptionStateUpgradePending, "a.v2.0.0", "a.v1.0.0")

	// A corrected object is no longer reported. Once all are corrected, the plan resumes.
	tn.SetSize(mine)
	says(tn, "a", names.ConditionObjectsRefused, names.ReasonRefusedByRemit, "1 object(s) would be invalid in version v1: 1 in namespaces that the OperatorGroup does not select")
	tn.SetSize(foreign)
	tn.Installed("a.v2.0.0")
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(before), now))
	require.Greater(t, now.Generation, before.Generation)

	// A schema that is unchanged, or accepts everything that the old one accepts, requires no reads.
	read := len(lists(tn, group))
	require.NotZero(t, read)
	tn.PublishWith("catalog", all, releasesV1, releasesV2, releasesV3)
	tn.Installed("a.v3.0.0")
	tn.PublishWith("catalog", all, releasesV1, releasesV2, releasesV3, "a.v4.0.0 stable replaces=a.v3.0.0")
	tn.Installed("a.v4.0.0")
	require.Len(t, lists(tn, group), read)
}

// listsOnlyIfAllowed asserts that the missing permission and its purpose are reported if the account is not allowed to read
// the objects.
func listsOnlyIfAllowed(t *testing.T, tn *env.Tenant, group string) {
	t.Helper()
	refusal := fmt.Sprintf("cannot list resource %q in API group %q at the cluster scope", "gadgets", group)
	says(tn, "a", names.ConditionPermissionsMissing, names.ReasonAccountLacksPermissions, refusal)
	require.Contains(t, reportsOf(tn), "validate existing objects against the new schema of CustomResourceDefinition gadgets."+group+", in version v1")
	require.Empty(t, lists(tn, group), "Remit must not try to list without permission")
	out, _ := preflightOf(t, missing, "subscription/a", "-n", tn.Namespace)
	require.Contains(t, out, refusal)
}

// As in Kubernetes, a version may stop being served, because its objects can be read in another version. A version must
// not be removed while objects can be stored in it.
func TestAVersionCanBeUnservedButNotRemovedWhileObjectsAreStoredInIt(t *testing.T) {
	t.Parallel()
	tn, group := brings(t)
	versions := func(edit func(v1, v2 *apiextensionsv1.CustomResourceDefinitionVersion)) *apiextensionsv1.CustomResourceDefinition {
		crd := env.Gadgets(group)
		v1, v2 := crd.Spec.Versions[0], crd.Spec.Versions[0]
		v2.Name, v2.Storage = "v2", false
		edit(&v1, &v2)
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{v1, v2}
		return crd
	}
	alone := versions(func(_, v2 *apiextensionsv1.CustomResourceDefinitionVersion) { v2.Storage = true })
	alone.Spec.Versions = alone.Spec.Versions[1:]
	all := env.Brings{
		"a.v1.0.0": versions(func(_, _ *apiextensionsv1.CustomResourceDefinitionVersion) {}),
		"a.v2.0.0": versions(func(v1, v2 *apiextensionsv1.CustomResourceDefinitionVersion) {
			v1.Served, v1.Storage, v2.Storage = false, false, true
		}),
		"a.v3.0.0": alone,
	}
	tn.PublishWith("catalog", all, releasesV1)
	tn.Subscribe("catalog", "a", "stable")
	tn.Installed("a.v1.0.0")
	another := following(t)
	another.PublishWith("catalog", all, releasesV1)
	another.Subscribe("catalog", "a", "stable")
	another.Installed("a.v1.0.0")
	obj := tn.Gadget(group, "v1", tn.Namespace, "stored-in-v1")
	obj.SetAPIVersion(group + "/v2")

	tn.PublishWith("catalog", all, releasesV1, releasesV2)
	tn.Installed("a.v2.0.0")
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	another.Eventually(func(c *assert.CollectT) { // an operator that still needs the version reports that it is not served
		csv := another.CSV(c, "a.v1.0.0")
		assert.NotEqual(c, operatorsv1alpha1.CSVPhaseSucceeded, csv.Status.Phase)
		assert.Contains(c, fmt.Sprintf("%+v", csv.Status.RequirementStatus), "CRD version not served")
	})

	tn.PublishWith("catalog", all, releasesV1, releasesV2, releasesV3)
	says(tn, "a", names.ConditionObjectsRefused, names.ReasonRefusedByRemit,
		fmt.Sprintf("risk of data loss updating %q: new CRD removes version v1 that is listed as a stored version", "gadgets."+group))
	tn.SetSize(obj) // the update stores the object in the new version
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: "gadgets." + group}, crd))
	before := crd.DeepCopy()
	crd.Status.StoredVersions = []string{"v2"}
	require.NoError(t, cluster.Client.Status().Patch(t.Context(), crd, client.MergeFrom(before)))
	tn.Installed("a.v3.0.0")
	require.Empty(t, lists(tn, group))
}

// reportsOf returns the reports of the namespace's plans.
func reportsOf(tn *env.Tenant) string {
	tn.T.Helper()
	list := &corev1.ConfigMapList{}
	require.NoError(tn.T, cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
	var out strings.Builder
	for _, cm := range list.Items {
		if strings.HasPrefix(cm.Name, names.ReportPrefix) {
			out.WriteString(cm.Data["report.yaml"])
		}
	}
	return strings.Join(strings.Fields(out.String()), " ") // normalize whitespace
}

// conditionsOf returns the conditions of the namespace's plans and Subscriptions.
func conditionsOf(tn *env.Tenant) string {
	tn.T.Helper()
	plans, subs := &operatorsv1alpha1.InstallPlanList{}, &operatorsv1alpha1.SubscriptionList{}
	require.NoError(tn.T, cluster.Client.List(tn.T.Context(), plans, client.InNamespace(tn.Namespace)))
	require.NoError(tn.T, cluster.Client.List(tn.T.Context(), subs, client.InNamespace(tn.Namespace)))
	var out strings.Builder
	for _, p := range plans.Items {
		fmt.Fprintf(&out, "%s\n%+v\n", p.Status.Message, p.Status.Conditions)
	}
	for _, s := range subs.Items {
		fmt.Fprintf(&out, "%+v\n", s.Status.Conditions)
	}
	return out.String()
}
