package olm

import (
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env"
)

// withClusterPermission lets the operator read Nodes.
func withClusterPermission(c *csv) {
	c.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{
		ServiceAccountName: "demo", Rules: []rbacv1.PolicyRule{rule("", "nodes", "get")},
	}}
}

func clusterRoles(tn *env.Tenant, c assert.TestingT) []rbacv1.ClusterRole {
	list := &rbacv1.ClusterRoleList{}
	assert.NoError(c, cluster.Client.List(tn.T.Context(), list, client.MatchingLabels{names.LabelOwnerNamespace: tn.Namespace}))
	return list.Items
}

func installWithClusterPermission(tn *env.Tenant) *csv {
	tn.T.Helper()
	grant(tn)
	tn.Grant(rbac.ClusterScope, append(manageClusterRBAC(), rule("", "nodes", "get"))...)
	tn.Group(env.AccountName, tn.Namespace)
	newCSV(tn, withClusterPermission)
	got := requireSucceeded(tn)
	require.Len(tn.T, clusterRoles(tn, tn.T), 1)
	require.Contains(tn.T, got.Finalizers, names.FinalizerCSV)
	return got
}

func requireGone(tn *env.Tenant) {
	tn.T.Helper()
	tn.Eventually(func(c *assert.CollectT) { assert.True(c, apierrors.IsNotFound(tn.Get("demo.v1.0.0", &csv{}))) })
}

func TestADeletedCSVLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	got := installWithClusterPermission(tn)
	require.NoError(t, cluster.Client.Delete(t.Context(), got))
	requireGone(tn)
	require.Empty(t, clusterRoles(tn, t))
}

// allowFinalizerRemoval grants cmd/olm permission to patch CSVs. A custom resource has no finalizers subresource that
// can be written, so removing a finalizer requires a patch of the object.
func allowFinalizerRemoval(tn *env.Tenant) {
	tn.T.Helper()
	tn.Create(&rbacv1.Role{ObjectMeta: tn.Meta("finalizers"), Rules: []rbacv1.PolicyRule{
		rule("operators.coreos.com", "clusterserviceversions", "patch")}})
	tn.Create(&rbacv1.RoleBinding{ObjectMeta: tn.Meta("finalizers"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "finalizers"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: names.DefaultNamespace, Name: names.ServiceAccountOLM}}})
}

func TestReportsWhatRemainsIfTheAccountIsDeleted(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	got := installWithClusterPermission(tn)
	allowFinalizerRemoval(tn)
	require.NoError(t, cluster.Client.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)}))
	requireCondition(tn, "group", "AccountUsable", metav1.ConditionFalse, "ServiceAccountNotFound") // Remit has observed the deletion
	require.NoError(t, cluster.Client.Delete(t.Context(), got))
	requireGone(tn)
	require.Len(t, clusterRoles(tn, t), 1)
	role := clusterRoles(tn, t)[0].Name
	tn.Eventually(func(c *assert.CollectT) {
		list := &eventsv1.EventList{}
		assert.NoError(c, cluster.Client.List(t.Context(), list))
		var notes []string
		for _, e := range list.Items {
			if e.Reason == "LeftBehind" && e.Regarding.Name == role {
				notes = append(notes, e.Note)
			}
		}
		assert.Contains(c, strings.Join(notes, "\n")+"\n", "kubectl delete clusterrole "+role+"\n")
	})
}
