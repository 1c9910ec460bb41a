package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/rbac"
)

// Even an account with all permissions cannot use rules that are too large to examine.
func TestRefusesRulesWithTooManyCombinations(t *testing.T) {
	words := make([]string, rbac.MaxAtoms)
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: words, Verbs: []string{"get", "list"}}
	all := []string{rbacv1.VerbAll}
	report := Examine(bounded, []Need{{Rules: []rbacv1.PolicyRule{rule}, Object: "Role ns/wide"}},
		func(string) rbac.Permissions {
			return rbac.Permissions{Rules: []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}}
		})
	require.True(t, report.Final())
	require.Contains(t, string(report.Refusals()), rbac.ErrTooLarge.Error())
}
