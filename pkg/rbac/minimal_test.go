package rbac

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestMinimalDropsWhatTheOtherRulesCover(t *testing.T) {
	rule := func(names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names, Verbs: verbs}
	}
	for name, row := range map[string]struct{ in, want []rbacv1.PolicyRule }{
		"a named rule beside the unnamed one": {
			[]rbacv1.PolicyRule{rule([]string{"a"}, "get"), rule(nil, "get", "list")},
			[]rbacv1.PolicyRule{rule(nil, "get", "list")},
		},
		"the part of a named rule that the unnamed one covers": {
			[]rbacv1.PolicyRule{rule([]string{"a"}, "get", "patch"), rule(nil, "get")},
			[]rbacv1.PolicyRule{rule(nil, "get"), rule([]string{"a"}, "patch")},
		},
		"one of two that say the same": {
			[]rbacv1.PolicyRule{rule(nil, "get"), rule(nil, "get")},
			[]rbacv1.PolicyRule{rule(nil, "get")},
		},
		"nothing where none covers another": {
			[]rbacv1.PolicyRule{rule([]string{"a"}, "get"), rule([]string{"b"}, "patch")},
			[]rbacv1.PolicyRule{rule([]string{"a"}, "get"), rule([]string{"b"}, "patch")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Minimal(row.in)
			require.ElementsMatch(t, row.want, got)
			require.Empty(t, Missing(got, row.in))
			require.Empty(t, Missing(row.in, got))
		})
	}
}
