package rbac

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The permissions of one scope that have as many values as permitted leave no room for others. Small ones are all kept.
func TestKeepsFewLargePermissions(t *testing.T) {
	t.Parallel()
	large := make([]string, MaxValues-10)
	for i := range large {
		large[i] = fmt.Sprint(i)
	}
	reads := map[string]int{}
	recent := NewRecent(func(scope string) Permissions {
		reads[scope]++
		rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{scope}}}
		if scope[0] == 'L' {
			rules[0].ResourceNames = large
		}
		return Permissions{Namespace: scope, Rules: rules, set: &prepared{rules: rules}}
	})
	wants := func(resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{"7"}}}
	}
	for _, scope := range []string{"small1", "L1", "L1", "L2", "L1", "small2", "small3", "small2"} {
		require.True(t, recent.Get(scope).Set().Covers(wants(scope)), scope)
		require.LessOrEqual(t, recent.size, MaxRecent+2*recentSize+6)
	}
	require.Equal(t, map[string]int{"small1": 1, "L1": 2, "L2": 1, "small2": 1, "small3": 1}, reads)
}

// ServiceAccounts that have the same roles through their group share what is prepared.
func TestTheSameRolesArePreparedOnce(t *testing.T) {
	t.Parallel()
	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	recent := NewRecent(func(scope string) Permissions {
		own := append([]rbacv1.PolicyRule{}, rules...)
		if scope == "other" {
			own[0].Verbs = []string{"get"}
		}
		return Permissions{Rules: own, set: &prepared{rules: own}}
	})
	require.Same(t, recent.Get("a").set, recent.Get("b").set)
	require.NotSame(t, recent.Get("a").set, recent.Get("other").set)
}
