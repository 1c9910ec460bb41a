package rbac

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPermissionsReportDanglingBindingsAndReadErrors(t *testing.T) {
	l := given(t,
		role(t1, "pods", "get :pods"), binding(t1, "a", ref("Role", "pods"), account(t1, "acct")),
		binding(t1, "b", ref("Role", "gone"), account(t1, "acct")),
		binding(t1, "c", ref("Robot", "x"), account(t1, "acct")),
		clusterBinding("d", ref("ClusterRole", "gone"), account(t1, "acct")),
		binding(t1, "e", ref("Role", "gone"), account(t1, "other")),
	)
	h := l.Permissions(ServiceAccount(t1, "acct"), t1)
	require.Equal(t, rules("get :pods"), h.Rules)
	require.ElementsMatch(t, []Dangling{
		{Namespace: t1, Binding: "b", Role: ref("Role", "gone")}, {Binding: "d", Role: ref("ClusterRole", "gone")},
	}, h.Dangling)
	require.Len(t, h.ReadErrors, 1)

	v := h.Check(rules("get :pods"))
	require.Equal(t, Verdict{}, v, "covered rules are covered despite read errors")
	v = h.Check(rules("get,list :pods"))
	require.False(t, v.Covered())
	require.Equal(t, rules("list :pods"), v.Missing)
	require.ElementsMatch(t, []string{
		`RoleBinding t1/b refers to Role "gone", which does not exist`,
		`ClusterRoleBinding d refers to ClusterRole "gone", which does not exist`,
	}, []string{h.Dangling[0].String(), h.Dangling[1].String()})
}

func TestWritingAnAggregatingRoleRequiresEverything(t *testing.T) {
	aggregating := clusterRole("r")
	aggregating.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}
	plain := clusterRole("r", "get :pods")
	granted := Permissions{Rules: rules("get :pods")}
	require.True(t, RoleGrant(plain, nil).Check(granted).Covered())
	require.True(t, RoleGrant(plain, clusterRole("r", "* *:*")).Check(granted).Covered(), "previous rules are ignored")
	for name, g := range map[string]Grant{
		"create":             RoleGrant(aggregating, nil),
		"update":             RoleGrant(aggregating, aggregating),
		"remove aggregation": RoleGrant(plain, aggregating),
	} {
		v := g.Check(granted)
		require.Equal(t, rules("* *:*", "* *"), v.Missing, name)
		v = g.Check(Permissions{Rules: rules("escalate rbac.authorization.k8s.io:clusterroles [r]")})
		require.True(t, v.Covered(), name)
		require.Equal(t, "escalate", v.Via, name)
		require.NotEmpty(t, v.Missing, "missing rules are listed even if escalate replaces them")
	}
}
