package csv

import (
	"fmt"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/test/env/recorded"
)

// Roles with the same rules in several namespaces are decoded once, but the account must be allowed to write each of them.
func TestMayGrantConsidersEachRoleThatSharesItsRules(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op.v1"}}
	csv.Spec.InstallStrategy.StrategySpec.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op", Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	}}}
	want, err := build.OperatorRBAC(csv, ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "ns"}, CSV: "op.v1"}, []string{"ns", "other"})
	require.NoError(t, err)
	account := scoped.Account{Namespace: "ns", Name: "installer"}
	server := recorded.New(t, nil)
	may := func(namespace string, rules ...rbacv1.PolicyRule) {
		role, binding := rbac.RoleAndBinding(metav1.ObjectMeta{Namespace: namespace, Name: "installer"}, rules, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name})
		server.Put(role)
		server.Put(binding)
	}
	granted := func() bool {
		barred, _, err := notGrantable(t.Context(), server.RBAC(), account, want)
		require.NoError(t, err)
		return len(barred) == 0
	}
	grants := func(namespace string) (out []rbacv1.PolicyRule) {
		for _, obj := range want {
			if obj.GetNamespace() == namespace && obj.GetKind() == "Role" {
				out = append(out, rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, ResourceNames: []string{obj.GetName()}, Verbs: []string{"escalate", "bind"}})
			}
		}
		require.Len(t, out, 1, apply.Describe(want[0]))
		return out
	}
	require.False(t, granted())
	may("ns", grants("ns")...)
	require.False(t, granted(), "the role in the other namespace has another name")
	may("other", grants("ns")...)
	require.False(t, granted())
	may("other", grants("other")...)
	require.True(t, granted())
}

// A stranger has added rules to a ClusterRole of the account. Whether the account may grant anything in its scope is for the API server to say.
func TestWhatAnAccountWithABloatedClusterRoleMayGrantIsAsked(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op.v1"}}
	csv.Spec.InstallStrategy.StrategySpec.Permissions = []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: "op", Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
	}}}
	want, err := build.OperatorRBAC(csv, ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "ns"}, CSV: "op.v1"}, []string{"ns", "other"})
	require.NoError(t, err)
	var many []rbacv1.PolicyRule
	for i := range rbac.MaxRoleRules + 1 {
		many = append(many, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{fmt.Sprint("r", i)}, Verbs: []string{"get"}})
	}
	server := recorded.New(t, nil)
	server.Put(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "admin"}, Rules: rbac.KeptRules(many)})
	server.Put(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "installer"}}})
	barred, unknown, err := notGrantable(t.Context(), server.RBAC(), scoped.Account{Namespace: "ns", Name: "installer"}, want)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"other": true}, barred, "it is not bound there")
	require.NotEmpty(t, unknown)
	for _, n := range unknown {
		require.Equal(t, "ns", n.Namespace)
		require.True(t, n.Granted)
		require.Len(t, n.Alternatives, 1)
	}
}
