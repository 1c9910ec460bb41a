package olm

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// The cases cover all kinds of RBAC changes that can grant the account its missing permissions.
func TestEveryGrantWakesAPendingCSV(t *testing.T) {
	t.Parallel()
	for _, piece := range env.Pieces() {
		t.Run(piece.Name, func(t *testing.T) {
			t.Parallel()
			tn := cluster.Tenant(t)
			grant(tn)
			tn.Group(env.AccountName, tn.Namespace)
			rules := []rbacv1.PolicyRule{rule("", "secrets", "get")}
			piece.Before(tn, rules)
			newCSV(tn, func(c *csv) { c.Spec.InstallStrategy.StrategySpec.Permissions[0].Rules = rules })
			tn.Eventually(func(c *assert.CollectT) {
				got := &csv{}
				assert.NoError(c, tn.Get("demo.v1.0.0", got))
				assert.Equal(c, pending, got.Status.Phase)
				assert.Contains(c, got.Status.Message, "is missing permissions: in namespace "+tn.Namespace)
			})

			piece.Last(tn, rules)
			requireSucceeded(tn)
		})
	}
}

// The cases cover all kinds of RBAC changes that can allow Remit to request the account's tokens.
func TestEveryEnrollmentWakesTheOperatorGroup(t *testing.T) {
	t.Parallel()
	for _, piece := range env.Pieces() {
		t.Run(piece.Name, func(t *testing.T) {
			t.Parallel()
			tn := cluster.Tenant(t)
			name := tn.Namespace // some objects are cluster-scoped, so their names must be unique
			tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta(name)})
			mint := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"},
				ResourceNames: []string{name}, Verbs: []string{"create"}}}
			self := func(name string) *env.Tenant {
				own := *tn
				own.Account = types.NamespacedName{Namespace: names.DefaultNamespace, Name: name}
				return &own
			}
			self(names.ServiceAccountCatalog).Grant(tn.Namespace, mint...)
			piece.Before(self(names.ServiceAccountOLM), mint)
			tn.Group(name, tn.Namespace)
			requireCondition(tn, "group", "AccountUsable", metav1.ConditionFalse, "AccountNotEnrolled")

			piece.Last(self(names.ServiceAccountOLM), mint)
			requireCondition(tn, "group", "AccountUsable", metav1.ConditionTrue, "Enrolled")
		})
	}
}

func TestAnInstalledCSVFollowsThePermissionsOfItsAccount(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	grant(tn)
	tn.Group(env.AccountName, tn.Namespace)
	rules := []rbacv1.PolicyRule{rule("", "secrets", "get")}
	role := func(rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "secrets-" + tn.Namespace}, Rules: rules}
	}
	tn.Create(role(rules))
	tn.Create(&rbacv1.RoleBinding{ObjectMeta: tn.Meta("secrets"),
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tn.Namespace, Name: env.AccountName}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role(nil).Name}})
	newCSV(tn, func(c *csv) { c.Spec.InstallStrategy.StrategySpec.Permissions[0].Rules = rules })
	clean := requireSucceeded(tn).Status.Message

	says := func(check func(c *assert.CollectT, message string)) {
		t.Helper()
		tn.Eventually(func(c *assert.CollectT) {
			got := &csv{}
			assert.NoError(c, tn.Get("demo.v1.0.0", got))
			assert.Equal(c, operatorsv1alpha1.CSVPhaseSucceeded, got.Status.Phase)
			check(c, got.Status.Message)
		})
	}
	require.NoError(t, cluster.Client.Update(t.Context(), role(nil)))
	says(func(c *assert.CollectT, message string) { assert.Contains(c, message, "ExceedsAccount") })
	require.NoError(t, cluster.Client.Update(t.Context(), role(rules)))
	says(func(c *assert.CollectT, message string) { assert.Equal(c, clean, message) })

	require.NoError(t, cluster.Client.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)}))
	says(func(c *assert.CollectT, message string) { assert.Contains(c, message, "ServiceAccountNotFound") })
	tn.Create(&corev1.ServiceAccount{ObjectMeta: tn.Meta(env.AccountName)})
	says(func(c *assert.CollectT, message string) { assert.Equal(c, clean, message) })
}

// A deleted CSV waits for permission to remove its objects outside its namespace.
func TestAGrantWakesACSVThatIsBeingRemoved(t *testing.T) {
	t.Parallel()
	tn := cluster.Tenant(t)
	c := installWithClusterPermission(tn)
	bindings := &rbacv1.ClusterRoleBindingList{}
	require.NoError(t, cluster.Client.List(t.Context(), bindings))
	var taken []rbacv1.ClusterRoleBinding
	for _, b := range bindings.Items {
		if len(b.Subjects) == 1 && b.Subjects[0].Namespace == tn.Namespace && b.Subjects[0].Name == env.AccountName {
			taken = append(taken, b)
			require.NoError(t, cluster.Client.Delete(t.Context(), &b))
		}
	}
	require.NotEmpty(t, taken)
	tn.Eventually(func(ct *assert.CollectT) { // Remit has observed the deletions
		got := &csv{}
		assert.NoError(ct, tn.Get(c.Name, got))
		assert.Contains(ct, got.Status.Message, "is missing permissions")
	})
	require.NoError(t, cluster.Client.Delete(t.Context(), c))
	requireEvent(tn, "LeftBehind")
	require.NoError(t, tn.Get(c.Name, c), "it waits")

	for i := range taken {
		taken[i].ResourceVersion, taken[i].UID = "", ""
		tn.Create(&taken[i])
	}
	requireGone(tn)
}
