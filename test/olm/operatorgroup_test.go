package olm

import (
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
)

func requireCondition(tn *env.Tenant, group, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	tn.T.Helper()
	var found metav1.Condition
	tn.Eventually(func(c *assert.CollectT) {
		og := &operatorsv1.OperatorGroup{}
		assert.NoError(c, tn.Get(group, og))
		got := meta.FindStatusCondition(og.Status.Conditions, kind)
		if assert.NotNil(c, got) {
			assert.Equal(c, status, got.Status, got.Message)
			assert.Equal(c, reason, got.Reason, got.Message)
			found = *got
		}
	})
	return found
}

func requireTargets(tn *env.Tenant, targets ...string) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) {
		og := &operatorsv1.OperatorGroup{}
		assert.NoError(c, tn.Get("group", og))
		assert.Equal(c, targets, og.Status.Namespaces)
	})
}

func TestTargetsBySelectorFollowTheLabels(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Grant(rbac.ClusterScope, rbac.GetNamespaceRules(tn.Namespace+"-a")...)
	og := &operatorsv1.OperatorGroup{ObjectMeta: tn.Meta("group")}
	og.Spec.ServiceAccountName = env.AccountName
	og.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": tn.Namespace}}
	tn.Create(og)
	requireCondition(tn, "group", "TargetsKnown", metav1.ConditionTrue, "NamespacesSelected")
	tn.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tn.Namespace + "-a", Labels: map[string]string{"team": tn.Namespace}}})
	requireTargets(tn, tn.Namespace+"-a")

	before := og.DeepCopy()
	og.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Like"}}}
	require.NoError(t, cluster.Client.Patch(t.Context(), og, client.MergeFrom(before)))
	requireCondition(tn, "group", "TargetsKnown", metav1.ConditionFalse, "InvalidSelector")
}

func TestTargetsAreListedOrAllNamespaces(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	og := tn.Group(env.AccountName, "b", "a")
	requireTargets(tn, "a", "b")
	retarget(tn, og)
	requireTargets(tn, "")
}

func TestReportsTheStateOfTheAccount(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Group("later", tn.Namespace)
	missing := requireCondition(tn, "group", "OperatorGroupServiceAccount", metav1.ConditionTrue, "ServiceAccountNotFound")
	require.Equal(t, "ServiceAccount later not found", missing.Message)
	requireCondition(tn, "group", "AccountUsable", metav1.ConditionFalse, "ServiceAccountNotFound")

	tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta("later")})
	requireCondition(tn, "group", "OperatorGroupServiceAccount", metav1.ConditionFalse, "ServiceAccountFound")
	help := requireCondition(tn, "group", "AccountUsable", metav1.ConditionFalse, "AccountNotEnrolled")
	require.Contains(t, help.Message, "remit/remit-catalog and remit/remit-olm cannot request tokens")

	tn.Account.Name = "later"
	tn.Enroll()
	requireCondition(tn, "group", "AccountUsable", metav1.ConditionTrue, "Enrolled")

	og := &operatorsv1.OperatorGroup{}
	require.NoError(t, tn.Get("group", og))
	old := og.Status.ServiceAccountRef.UID
	require.NoError(t, cluster.Client.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: tn.Meta("later")}))
	requireCondition(tn, "group", "AccountChanged", metav1.ConditionUnknown, "AccountGone")
	tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta("later")})
	requireCondition(tn, "group", "AccountChanged", metav1.ConditionTrue, "AccountRecreated")
	require.NoError(t, tn.Get("group", og))
	require.NotEqual(t, old, og.Status.ServiceAccountRef.UID)
}

func TestReportsALostEnrollment(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	tn.Group(env.AccountName, tn.Namespace)
	requireCondition(tn, "group", "AccountUsable", metav1.ConditionTrue, "Enrolled")
	list := &rbacv1.RoleBindingList{}
	require.NoError(t, cluster.Client.List(t.Context(), list))
	for i := range list.Items {
		if list.Items[i].Namespace == tn.Namespace {
			require.NoError(t, cluster.Client.Delete(t.Context(), &list.Items[i]))
		}
	}
	requireCondition(tn, "group", "AccountUsable", metav1.ConditionFalse, "AccountNotEnrolled")
}
