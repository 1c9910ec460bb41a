package rbac

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// longRole returns a role with as many rules as Remit evaluates, as a client decodes it.
func longRole(finalizer string) *rbacv1.Role {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "long", Finalizers: []string{finalizer}}}
	for i := range MaxRoleRules {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{fmt.Sprint("pod-", i)}})
	}
	return role
}

func longBinding(n int) *rbacv1.RoleBinding {
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "long"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}}
	for i := range n {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprint("user-", i)})
	}
	return binding
}

// receive processes an object as the caches of programs do.
func receive(u *Unchanged, obj any, change func()) {
	restore := u.Take(obj)
	change()
	restore()
}

func TestStatesOfAnObjectShareLongListsThatDoNotChange(t *testing.T) {
	u := &Unchanged{}
	receiveRole := func(r *rbacv1.Role) *rbacv1.Role {
		receive(u, r, func() { r.Rules = KeptRules(r.Rules) })
		return r
	}
	first, second := receiveRole(longRole("a")), receiveRole(longRole("b"))
	require.Equal(t, longRole("b"), second)
	require.True(t, shared(first.Rules, second.Rules), "of two states in memory, one would be kept for each handler")
	changed := longRole("c")
	changed.Rules[len(changed.Rules)-1].Verbs[0] = "list"
	require.False(t, shared(receiveRole(changed).Rules, second.Rules))
	require.Equal(t, "list", changed.Rules[len(changed.Rules)-1].Verbs[0])
	require.Equal(t, "get", second.Rules[len(second.Rules)-1].Verbs[0])
	repeated := longRole("d")
	repeated.Rules = slices.Concat(repeated.Rules[:100], repeated.Rules[:100])
	again := repeated.DeepCopy()
	require.Len(t, receiveRole(repeated).Rules, 100)
	require.True(t, shared(repeated.Rules, receiveRole(again).Rules), "what was received is compared, not what is kept")
	other := longRole("a")
	other.Name = "other"
	require.Equal(t, other.Rules, receiveRole(other).Rules)
	before, after := longBinding(200), longBinding(200)
	receive(u, before, func() {})
	receive(u, after, func() {})
	require.True(t, shared(before.Subjects, after.Subjects))
	after = longBinding(201)
	receive(u, after, func() {})
	require.Len(t, after.Subjects, 201)
	for _, obj := range []any{&rbacv1.ClusterRole{Rules: longRole("").Rules}, &rbacv1.ClusterRoleBinding{Subjects: longBinding(200).Subjects}, &rbacv1.Role{}, nil} {
		receive(u, obj, func() {})
	}
	runtime.KeepAlive([]any{first, second, changed, repeated, again, other, before})
}

func TestListsOfDeletedObjectsAreNotKept(t *testing.T) {
	u := &Unchanged{}
	for i := range 10 * minSweep {
		b := longBinding(100)
		b.Name = fmt.Sprint("b-", i)
		receive(u, b, func() {})
		if i%minSweep == 0 {
			runtime.GC()
		}
	}
	require.Less(t, len(u.subjects.last), 3*minSweep)
}

func TestDifferentListsHaveDifferentSums(t *testing.T) {
	rule := func(lists ...[]string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: lists[0], APIGroups: lists[1], Resources: lists[2], ResourceNames: lists[3], NonResourceURLs: lists[4]}
	}
	seen := map[sum]int{}
	for i, rules := range [][]rbacv1.PolicyRule{
		nil,
		{rule(nil, nil, nil, nil, nil)},
		{rule([]string{"a"}, nil, nil, nil, nil)},
		{rule(nil, []string{"a"}, nil, nil, nil)},
		{rule(nil, nil, []string{"a"}, nil, nil)},
		{rule(nil, nil, nil, []string{"a"}, nil)},
		{rule(nil, nil, nil, nil, []string{"a"})},
		{rule([]string{"a", "b"}, nil, nil, nil, nil)},
		{rule([]string{"ab"}, nil, nil, nil, nil)},
		{rule([]string{"ab", ""}, nil, nil, nil, nil)},
		{rule([]string{"a"}, []string{"b"}, nil, nil, nil)},
		{rule([]string{"a"}, nil, nil, nil, nil), rule([]string{"b"}, nil, nil, nil, nil)},
	} {
		got, _ := sumOfRules(rules)
		require.NotContains(t, seen, got, "%d and %d", seen[got], i)
		seen[got] = i
	}
	a, _ := sumOfSubjects([]rbacv1.Subject{{Kind: "User", Name: "a"}})
	b, _ := sumOfSubjects([]rbacv1.Subject{{Kind: "User", Namespace: "a"}})
	require.NotEqual(t, a, b)
}

func TestSameContentIgnoresOnlyMetadata(t *testing.T) {
	require.True(t, SameContent(longRole("a"), longRole("b")))
	for i, change := range []func(*rbacv1.PolicyRule){
		func(r *rbacv1.PolicyRule) { r.Verbs = []string{"x"} },
		func(r *rbacv1.PolicyRule) { r.APIGroups = []string{"x"} },
		func(r *rbacv1.PolicyRule) { r.Resources = nil },
		func(r *rbacv1.PolicyRule) { r.ResourceNames = append(r.ResourceNames, "x") },
		func(r *rbacv1.PolicyRule) { r.NonResourceURLs = []string{"x"} },
	} {
		changed := longRole("a")
		change(&changed.Rules[len(changed.Rules)-1])
		require.False(t, SameContent(longRole("a"), changed), i)
	}
	require.False(t, SameContent(&rbacv1.ClusterRole{}, &rbacv1.ClusterRole{AggregationRule: &rbacv1.AggregationRule{}}))
	require.True(t, SameContent(longBinding(3), longBinding(3)))
	require.False(t, SameContent(longBinding(3), longBinding(4)))
	moved := longBinding(3)
	moved.RoleRef.Name = "other"
	require.False(t, SameContent(longBinding(3), moved))
}

// Handlers of events compare the rules. An informer takes about 10 ms to decode a role with so many.
func BenchmarkComparedRules(b *testing.B) {
	u := &Unchanged{}
	before, after, apart := longRole("a"), longRole("b"), longRole("c")
	receive(u, before, func() {})
	receive(u, after, func() {})
	for name, is := range map[string]*rbacv1.Role{"shared": after, "apart": apart} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if touched(before, is) != nil {
					b.Fatal("the rules are the same")
				}
			}
		})
	}
}

func TestOnlyRBACObjectsHaveTheSameContent(t *testing.T) {
	require.False(t, SameContent(&rbacv1.RoleList{}, &rbacv1.RoleList{}))
	require.True(t, SameContent(&rbacv1.RoleBinding{}, &rbacv1.RoleBinding{}))
	require.True(t, SameContent(&rbacv1.Role{}, &rbacv1.Role{}))
}
