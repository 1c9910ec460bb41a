package rbac

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestMinimalDropsCoveredRules(t *testing.T) {
	rule := func(names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names, Verbs: verbs}
	}
	for name, row := range map[string]struct{ in, want []rbacv1.PolicyRule }{
		"a named rule covered by an unnamed one": {
			[]rbacv1.PolicyRule{rule([]string{"a"}, "get"), rule(nil, "get", "list")},
			[]rbacv1.PolicyRule{rule(nil, "get", "list")},
		},
		"the part of a named rule that the unnamed one covers": {
			[]rbacv1.PolicyRule{rule([]string{"a"}, "get", "patch"), rule(nil, "get")},
			[]rbacv1.PolicyRule{rule(nil, "get"), rule([]string{"a"}, "patch")},
		},
		"duplicate rules": {
			[]rbacv1.PolicyRule{rule(nil, "get"), rule(nil, "get")},
			[]rbacv1.PolicyRule{rule(nil, "get")},
		},
		"no rule covers another": {
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

func TestMinimalDropsRulesIncludedInAStar(t *testing.T) {
	for name, row := range map[string]struct{ in, want []rbacv1.PolicyRule }{
		"a verb":                    {rules("* :pods", "get,list :pods"), rules("* :pods")},
		"a verb of a name":          {rules("* :pods", "get :pods [a]"), rules("* :pods")},
		"all verbs of a name only":  {rules("* :pods [a]", "get :pods"), rules("get :pods", "* :pods [a]")},
		"a group":                   {rules("get *:pods", "get ,apps:pods"), rules("get *:pods")},
		"a resource":                {rules("get :*", "get :pods,pods/log"), rules("get :*")},
		"a subresource":             {rules("get :*/log", "get,list :pods,pods/log"), rules("get,list :pods", "get :*/log", "list :pods/log")},
		"stars in one rule":         {rules("*,get *,:*,pods"), rules("* *:*")},
		"subresources in one rule":  {rules("get :pods,pods/log,*/log"), rules("get :*/log,pods")},
		"a URL":                     {rules("get /a/*,/a/b,/a", "get /a/c"), rules("get /a,/a/*")},
		"a URL with more stars":     {rules("get /a*,/a**", "get,list /b*", "get /b**"), rules("get,list /b*", "get /a*")},
		"everything":                {rules("* *:*", "get :pods", "* *", "get /x"), rules("* *:*", "* *")},
		"rules that do not overlap": {rules("* :pods", "get *:pods"), rules("* :pods", "get *:pods")},
		"a star of another verb":    {rules("list :*", "get :pods"), rules("list :*", "get :pods")},
	} {
		t.Run(name, func(t *testing.T) {
			got := Minimal(row.in)
			require.ElementsMatch(t, row.want, got)
		})
	}
}

func TestMinimalIsEquivalentAndHasNoRedundancy(t *testing.T) {
	for seed := range int64(500) {
		in := randomRules(rand.New(rand.NewSource(seed)))
		got := Minimal(in)
		require.Empty(t, Missing(got, in), "seed %d", seed)
		require.Empty(t, Missing(in, got), "seed %d", seed)
		require.Equal(t, got, Minimal(got), "seed %d", seed)
		all := Atoms(got)
		for i, atom := range all {
			rest := slices.Concat(all[:i], all[i+1:])
			require.NotEmpty(t, Missing(rest, []rbacv1.PolicyRule{atom}), "seed %d: %s", seed, Line(atom))
		}
	}
}
