package rbac

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bloated returns a ClusterRole as a cache keeps it after a stranger has added 10,001 rules. It aggregates those with a label.
func bloated(name, into string) *rbacv1.ClusterRole {
	out := clusterRole(name)
	out.Rules = KeptRules(differing(MaxRoleRules + 1))
	out.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{AggregateTo + name: "true"}}}}
	if into != "" {
		out.Labels = map[string]string{AggregateTo + into: "true"}
	}
	return out
}

// defaults returns the default ClusterRoles with more rules than are kept.
func defaults() []any {
	return []any{bloated("view", "edit"), bloated("edit", "admin"), bloated("admin", "")}
}

// A stranger who may write one ClusterRole can add rules to view, edit and admin. Those bound to them have less than they have, but are
// not without permissions.
func TestRulesThatStrangersAddToAClusterRoleDoNotHideOthers(t *testing.T) {
	me, subject := account("t1", "acct"), ServiceAccount("t1", "acct")
	objects := append(defaults(), role("t1", "own", "get :pods"), binding("t1", "own", ref(kindRole, "own"), me), binding("t1", "a", ref(kindClusterRole, "admin"), me))
	l := given(t, objects...)
	for _, namespace := range []string{"t1", "t2"} {
		h := l.LowerBound(subject, namespace)
		require.Empty(t, h.ReadErrors, "a LimitError would stop everything")
		require.Equal(t, namespace == "t1", h.Check(rules("get :pods")).Covered())
		require.False(t, h.Check(rules("get :secrets")).Covered(), "what is not kept grants nothing")
	}
	require.Equal(t, []string{"admin"}, l.LowerBound(subject, "t1").NotKept)
	got, err := l.EffectiveRules(subject, "t1")
	require.NoError(t, err)
	require.Equal(t, rules("get :pods"), got)

	// Many rules that are just kept have no other effect. Roles, which users of the namespace write, do not omit ClusterRoles.
	most, more, view := large("t1", "most", MaxValues/3-1), clusterRole("more", "get :pods"), clusterRole("view", "get :pods")
	more.Rules = append(more.Rules, large("", "more", MaxValues/8).Rules...)
	view.Rules = append(view.Rules, large("", "view", MaxValues/4).Rules...)
	l = given(t, most, binding("t1", "most", ref(kindRole, "most"), me), view, clusterBinding("view", ref(kindClusterRole, "view"), me),
		clusterRole("small", "get :nodes"), clusterBinding("small", ref(kindClusterRole, "small"), me))
	h := l.LowerBound(subject, "t1")
	require.Empty(t, h.ReadErrors)
	require.Empty(t, h.NotKept)
	require.True(t, h.Check(append(rules("get :nodes", "get :pods"), most.Rules[:10]...)).Covered())
	l = given(t, most, binding("t1", "most", ref(kindRole, "most"), me), view, clusterBinding("view", ref(kindClusterRole, "view"), me),
		more, clusterBinding("more", ref(kindClusterRole, "more"), me), clusterRole("small", "get :nodes"), clusterBinding("small", ref(kindClusterRole, "small"), me))
	h = l.LowerBound(subject, "t1")
	require.Empty(t, h.ReadErrors)
	require.Equal(t, []string{"view"}, h.NotKept, "the largest is omitted")
	require.True(t, h.Check(append(rules("get :nodes"), most.Rules[:10]...)).Covered())
}

// What a ServiceAccount has beyond the account is not hidden by rules that are not kept.
func TestAClusterRoleWithTooManyRulesIsCoveredOnlyByItself(t *testing.T) {
	subject, by := ServiceAccount("t1", "ci"), ServiceAccount("t1", "acct")
	sa, me := account("t1", "ci"), account("t1", "acct")
	view := binding("t1", "v", ref(kindClusterRole, "view"), sa)
	everything := clusterRole("everything", "* *:*")
	fake := bloated("fake", "edit") // with a label, but its writer could not make it aggregate others
	fake.AggregationRule = nil
	kept := clusterRole("edit", "get :pods")
	kept.AggregationRule = bloated("edit", "").AggregationRule
	for name, row := range map[string]struct {
		objects []any
		covered bool
	}{
		"nothing":                             {objects: []any{view}},
		"the same in the namespace":           {objects: []any{view, binding("t1", "a", ref(kindClusterRole, "view"), me)}, covered: true},
		"the same in the cluster":             {objects: []any{view, clusterBinding("a", ref(kindClusterRole, "view"), me)}, covered: true},
		"the same elsewhere":                  {objects: []any{view, binding("t2", "a", ref(kindClusterRole, "view"), me)}},
		"only in the namespace":               {objects: []any{clusterBinding("v", ref(kindClusterRole, "view"), sa), binding("t1", "a", ref(kindClusterRole, "view"), me)}},
		"what aggregates it":                  {objects: []any{view, binding("t1", "a", ref(kindClusterRole, "edit"), me)}, covered: true},
		"what aggregates what aggregates it":  {objects: []any{view, binding("t1", "a", ref(kindClusterRole, "admin"), me)}, covered: true},
		"what it aggregates":                  {objects: []any{binding("t1", "v", ref(kindClusterRole, "admin"), sa), binding("t1", "a", ref(kindClusterRole, "edit"), me)}},
		"what aggregates it, without the new": {objects: []any{view, kept, binding("t1", "a", ref(kindClusterRole, "edit"), me)}},
		"a label that anybody can write":      {objects: []any{fake, binding("t1", "v", ref(kindClusterRole, "fake"), sa), binding("t1", "a", ref(kindClusterRole, "edit"), me)}},
		"everything":                          {objects: []any{view, everything, binding("t1", "a", ref(kindClusterRole, "everything"), me)}, covered: true},
		"everything without URLs":             {objects: []any{clusterBinding("v", ref(kindClusterRole, "view"), sa), everything, clusterBinding("a", ref(kindClusterRole, "everything"), me)}},
		"one more rule": {objects: []any{view, binding("t1", "a", ref(kindClusterRole, "view"), me), role("t1", "more", "get :nodes"),
			binding("t1", "more", ref(kindRole, "more"), sa)}, covered: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := given(t, append(defaults(), row.objects...)...)
			found, err := l.Uncovered(subject, by)
			if !row.covered {
				require.ErrorAs(t, err, new(*LimitError))
				require.Empty(t, found)
				return
			}
			require.NoError(t, err)
			if name == "one more rule" {
				require.Equal(t, []Scoped{{Namespace: "t1", Rules: rules("get :nodes")}}, found)
				return
			}
			require.Empty(t, found)
			require.Empty(t, l.UncoveredBindings(subject, by, everyBinding))
		})
	}
}
