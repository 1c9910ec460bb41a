package rbac

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

func differing(n int) []rbacv1.PolicyRule {
	out := make([]rbacv1.PolicyRule, n)
	for i := range out {
		out[i] = rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{fmt.Sprint(i)}}
	}
	return out
}

func TestEqualRulesAreKeptOnce(t *testing.T) {
	get := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	list := rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	require.Equal(t, []rbacv1.PolicyRule{get, list}, KeptRules(slices.Concat(slices.Repeat([]rbacv1.PolicyRule{get}, 50_000), []rbacv1.PolicyRule{list, get})))
	few := []rbacv1.PolicyRule{get, get}
	require.Equal(t, few, KeptRules(few), "as they were written")
	require.Len(t, KeptRules(differing(MaxRoleRules)), MaxRoleRules)
	subject := rbacv1.Subject{Kind: "User", Name: "a"}
	require.Equal(t, []rbacv1.Subject{subject, {Kind: "User", Name: "b"}}, KeptSubjects(append(slices.Repeat([]rbacv1.Subject{subject}, 10_000), rbacv1.Subject{Kind: "User", Name: "b"})))
	var all []rbacv1.Subject
	for i := range 12_000 {
		all = append(all, rbacv1.Subject{Kind: "User", Name: fmt.Sprint(i)})
	}
	require.Equal(t, all, KeptSubjects(all), "no grant is hidden")
}

// Rules that are not kept count as neither few nor many permissions.
func TestRolesThatAreNotKeptAreUnknown(t *testing.T) {
	values := []rbacv1.PolicyRule{{Verbs: slices.Repeat([]string{"x"}, MaxValues+1)}}
	for name, rules := range map[string][]rbacv1.PolicyRule{"rules": differing(MaxRoleRules + 1), "values": values} {
		t.Run(name, func(t *testing.T) {
			kept := KeptRules(rules)
			require.Len(t, kept, 1)
			require.True(t, TooLarge(kept), "not a role that grants little")
			require.Equal(t, kept, Missing(differing(1), kept), "and what no account covers")
			require.Greater(t, CountValues(kept), MaxValues)
			g := gathering{}
			g.values = CountValues(kept)
			limit, ok := errors.AsType[*LimitError](errors.Join(g.result(ServiceAccount("a", "b")).ReadErrors...))
			require.True(t, ok)
			require.ErrorContains(t, limit, "or one of them has more than 10000 different rules")
		})
	}
}
