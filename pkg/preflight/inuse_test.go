package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

func TestWarnsAboutAnExistingRoleWithTheNameOfAGrant(t *testing.T) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	report := Report{
		Identity: scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "t1", Name: "acct"}),
		Findings: []Finding{{Namespace: "t1", Missing: rules}, {Missing: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}}}},
	}
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "roles"}, "x")
	var asked []rbacv1.RoleRef
	answer := func(rules []rbacv1.PolicyRule, err error) func(rbacv1.RoleRef, string) ([]rbacv1.PolicyRule, error) {
		return func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
			asked = append(asked, ref)
			require.Equal(t, ref.Kind == "ClusterRole", namespace == "")
			return rules, err
		}
	}
	report.WarnAboutExistingRoles(answer(nil, notFound))
	require.Empty(t, report.InUse)
	require.Len(t, asked, 2)
	require.NotContains(t, string(report.Summary()), "WARNING")

	report.WarnAboutExistingRoles(answer(nil, nil))
	require.Len(t, report.InUse, 2, "roles without rules are reported too, because any user can create them")
	require.Contains(t, string(report.Summary()), "WARNING: Role t1/"+asked[1].Name+" exists with different rules")
	require.Contains(t, string(report.Refusals()), "WARNING: ClusterRole "+asked[0].Name+" exists with different rules")
	files, err := report.Files()
	require.NoError(t, err)
	require.Contains(t, files[FileGrant], "# WARNING: Role t1/")
	require.Contains(t, files[FileReport], "inUse:")

	report.WarnAboutExistingRoles(func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
		if namespace == "t1" {
			return rules, nil // the role in t1 has the same rules as in the grant
		}
		return nil, notFound
	})
	require.Empty(t, report.InUse)
}
