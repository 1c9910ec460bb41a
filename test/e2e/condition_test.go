package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// conditionOf waits until the OperatorCondition exists and the client may read it.
func conditionOf(tn *env.Tenant, c client.Client, name string) *operatorsv2.OperatorCondition {
	tn.T.Helper()
	out := &operatorsv2.OperatorCondition{}
	tn.Eventually(func(t *assert.CollectT) {
		assert.NoError(t, c.Get(tn.T.Context(), client.ObjectKey{Namespace: tn.Namespace, Name: name}, out))
	})
	return out
}

func upgradeable(status metav1.ConditionStatus) []metav1.Condition {
	return []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: status, Reason: "Migration", Message: "migrating objects", LastTransitionTime: metav1.Now()}}
}

// The operator reports with its own ServiceAccount, for which Remit wrote a Role as the account. An OperatorCondition of
// a tenant in another namespace, with the same name, has no effect.
func TestAnOperatorHoldsItsUpgradeBackUntilAUserOverridesIt(t *testing.T) {
	t.Parallel()
	neighbor, tn := following(t), following(t)
	forged := &operatorsv2.OperatorCondition{ObjectMeta: neighbor.Meta("a.v1.0.0"), Spec: operatorsv2.OperatorConditionSpec{
		ServiceAccounts: []string{"forged"}, Overrides: upgradeable(metav1.ConditionFalse),
	}}
	neighbor.Create(forged)
	for _, each := range []*env.Tenant{neighbor, tn} {
		each.Publish("catalog", releasesV1)
		each.Subscribe("catalog", "a", "stable")
		each.Installed("a.v1.0.0")
	}
	kept := conditionOf(neighbor, cluster.Client, "a.v1.0.0")
	require.Equal(t, forged.Spec.ServiceAccounts, kept.Spec.ServiceAccounts)
	require.Empty(t, kept.OwnerReferences)

	operator := cluster.As(t, "system:serviceaccount:"+tn.Namespace+":a")
	made := conditionOf(tn, operator, "a.v1.0.0")
	require.Equal(t, []string{"a"}, made.Spec.ServiceAccounts)
	require.Equal(t, []string{"a"}, made.Spec.Deployments)
	require.Equal(t, tn.CSV(t, "a.v1.0.0").UID, made.OwnerReferences[0].UID)
	before := made.DeepCopy()
	made.Spec.Conditions = upgradeable(metav1.ConditionFalse)
	require.NoError(t, operator.Patch(t.Context(), made, client.MergeFrom(before)))
	tn.Eventually(func(c *assert.CollectT) {
		assert.Len(c, conditionOf(tn, operator, "a.v1.0.0").Status.Conditions, 1)
	})

	another := &operatorsv2.OperatorCondition{ObjectMeta: tn.Meta("b.v1.0.0")}
	tn.Create(another)
	err := operator.Patch(t.Context(), another, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"deployments":["forged"]}}`)))
	require.True(t, apierrors.IsForbidden(err), "the Role covers only the operator's own object: %v", err)

	tn.Publish("catalog", releasesV1, releasesV2)
	tn.Eventually(func(c *assert.CollectT) {
		next := tn.CSV(c, "a.v2.0.0").Status
		assert.Equal(c, operatorsv1alpha1.CSVPhasePending, next.Phase)
		assert.Equal(c, operatorsv1alpha1.CSVReasonOperatorConditionNotUpgradeable, next.Reason)
		assert.Equal(c, "operator is not upgradeable: migrating objects", next.Message)
	})
	require.Equal(t, operatorsv1alpha1.CSVPhaseSucceeded, tn.CSV(t, "a.v1.0.0").Status.Phase)

	overridden := conditionOf(tn, cluster.Client, "a.v1.0.0")
	before = overridden.DeepCopy()
	overridden.Spec.Overrides = upgradeable(metav1.ConditionTrue)
	require.NoError(t, cluster.Client.Patch(t.Context(), overridden, client.MergeFrom(before), client.FieldOwner(names.FieldManager+"-e2e")))
	tn.Installed("a.v2.0.0")
	conditionOf(tn, cluster.As(t, "system:serviceaccount:"+tn.Namespace+":a"), "a.v2.0.0")
}
