package rbac

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// large returns a Role with a given number of rules of three values each.
func large(namespace, name string, rules int) *rbacv1.Role {
	out := role(namespace, name)
	for i := range rules {
		out.Rules = append(out.Rules, on(fmt.Sprint("v", i), "", fmt.Sprint(name, i)))
	}
	return out
}

func TestARoleWithManyBindingsIsReadOnce(t *testing.T) {
	me := account("t1", "acct")
	objects := []any{large("t1", "role", 1_000), clusterRole("everywhere", "get :pods"), large("t2", "role", 1)}
	for i := range 200 {
		objects = append(objects, binding("t1", fmt.Sprint(i), ref(kindRole, "role"), me), binding("t1", fmt.Sprint("c", i), ref(kindClusterRole, "everywhere"), me),
			binding("t1", fmt.Sprint("d", i), ref(kindRole, "gone"), me), clusterBinding(fmt.Sprint(i), ref(kindClusterRole, "everywhere"), me))
	}
	l := given(t, objects...)
	h := l.Permissions(ServiceAccount("t1", "acct"), "t1")
	require.Len(t, h.Rules, 1_000+1)
	require.Len(t, h.Dangling, 200, "each binding to a missing role is reported")
	uncovered, err := l.Uncovered(ServiceAccount("t1", "acct"), ServiceAccount("t1", "other"))
	require.NoError(t, err)
	require.Len(t, uncovered, 2)
}

func TestGatheredValuesAreLimited(t *testing.T) {
	me, subject := account("t1", "acct"), ServiceAccount("t1", "acct")
	most := MaxValues / 3
	objects := []any{large("t1", "most", most), binding("t1", "most", ref(kindRole, "most"), me)}
	h := given(t, objects...).Permissions(subject, "t1")
	require.Len(t, h.Rules, most)
	require.Empty(t, h.ReadErrors)

	objects = append(objects, large("t1", "more", 10), binding("t1", "more", ref(kindRole, "more"), me))
	l := given(t, objects...)
	h = l.Permissions(subject, "t1")
	require.Empty(t, h.Rules)
	require.Len(t, h.ReadErrors, 1)
	require.False(t, h.Check(rules("get :pods")).Covered())

	_, err := l.EffectiveRules(subject, "t1")
	require.ErrorIs(t, err, ErrUnreadable)
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
	require.Equal(t, LimitError{User: subject.User, Namespace: "t1"}, *limit)
	require.ErrorContains(t, err, "the roles bound to system:serviceaccount:t1:acct in namespace t1 have more than the supported maximum of 200000 verbs, ")
	_, err = l.EffectiveRules(subject, ClusterScope)
	require.NoError(t, err, "cluster-wide rules are counted separately")
	_, err = l.Uncovered(subject, ServiceAccount("t1", "other"))
	require.ErrorAs(t, err, &limit)
	_, err = l.Uncovered(ServiceAccount("t1", "other"), subject)
	require.NoError(t, err, "the other account has no rules")
}

func TestUncoveredRulesOfAllNamespacesAreLimited(t *testing.T) {
	subject, other := ServiceAccount("t1", "acct"), ServiceAccount("t1", "other")
	objects := []any{}
	for i := range 4 {
		namespace := fmt.Sprint("t", i)
		objects = append(objects, large(namespace, "role", MaxValues/12), binding(namespace, "b", ref(kindRole, "role"), account("t1", "acct")))
	}
	uncovered, err := given(t, objects...).Uncovered(subject, other)
	require.NoError(t, err)
	require.Len(t, uncovered, 4)

	objects = append(objects, large("t9", "role", MaxValues/12), binding("t9", "b", ref(kindRole, "role"), account("t1", "acct")))
	_, err = given(t, objects...).Uncovered(subject, other)
	var limit *LimitError
	require.ErrorAs(t, err, &limit)
	require.ErrorContains(t, err, "in all namespaces combined have more than the supported maximum of 200000")
}

func TestAClusterRoleBindingToARoleIsDangling(t *testing.T) {
	me := account("t1", "acct")
	h := given(t, role("t1", "r", "get :pods"), clusterBinding("b", ref(kindRole, "r"), me), binding("t1", "b", ref(kindRole, "r"), me)).
		Permissions(ServiceAccount("t1", "acct"), "t1")
	require.Equal(t, rules("get :pods"), h.Rules)
	require.Equal(t, []Dangling{{Binding: "b", Role: ref(kindRole, "r")}}, h.Dangling)
}
