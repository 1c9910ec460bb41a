package rbac

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestGettableReturnsNamespacesTheAccountMayGet(t *testing.T) {
	acct := account("t1", "acct")
	const gets = "get :namespaces"
	l := given(t,
		clusterRole("named", "get :namespaces [named-in-cluster]"), clusterBinding("named", ref("ClusterRole", "named"), acct),
		role("by-role", "r", gets), binding("by-role", "b", ref("Role", "r"), acct),
		clusterRole("gets", gets), binding("by-clusterrole", "b", ref("ClusterRole", "gets"), acct),
		binding("by-group", "b", ref("ClusterRole", "gets"), group("system:serviceaccounts:t1")),
		role("by-name", "r", "get :namespaces [by-name]"), binding("by-name", "b", ref("Role", "r"), acct),
		role("another-name", "r", "get :namespaces [by-name]"), binding("another-name", "b", ref("Role", "r"), acct),
		role("another-verb", "r", "list,watch,update :namespaces"), binding("another-verb", "b", ref("Role", "r"), acct),
		role("subresource", "r", "get :namespaces/status"), binding("subresource", "b", ref("Role", "r"), acct),
		role("everything-else", "r", "* :pods"), binding("everything-else", "b", ref("Role", "r"), acct),
		role("dangling", "r", gets), binding("dangling", "b", ref("Role", "another"), acct),
		role("of-another", "r", gets), binding("of-another", "b", ref("Role", "r"), account("t2", "acct")),
	)
	all := []string{"by-role", "by-clusterrole", "by-group", "by-name", "named-in-cluster",
		"another-name", "another-verb", "subresource", "everything-else", "dangling", "of-another", "without-any"}
	got, err := l.Gettable(ServiceAccount("t1", "acct"), all)
	require.NoError(t, err)
	require.Equal(t, all[:5], got)

	none, err := l.Gettable(ServiceAccount("t3", "acct"), all)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestPermissionOnAllNamespacesIncludesEach(t *testing.T) {
	l := given(t, clusterRole("gets", "get :namespaces"), clusterBinding("gets", ref("ClusterRole", "gets"), account("t1", "acct")))
	got, err := l.Gettable(ServiceAccount("t1", "acct"), []string{"a", "b"})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, got)
}

func TestTrackedLookupsDoNotGrowWithNamespaces(t *testing.T) {
	w, i, me := newWorld(t), &Interests[string]{}, ServiceAccount("t1", "acct")
	gettable := func(namespaces ...string) question {
		return func(t testing.TB, l Listers) any {
			got, err := l.Gettable(me, namespaces)
			require.NoError(t, err)
			return got
		}
	}
	require.Empty(t, ask(t, i, "few", w, gettable("a", "b")))
	require.Empty(t, ask(t, i, "many", w, gettable(namespaces(500)...)))
	require.Empty(t, ask(t, i, "more", w, gettable(namespaces(1000)...)))
	require.Less(t, len(i.interests["many"].lookups), 30)
	require.Len(t, i.interests["more"].lookups, len(i.interests["many"].lookups))
	i.end("more", nil)

	before, after := w.put(t, role("a", "r", "get :namespaces"))
	require.Empty(t, i.Concerned(before, after), "no binding refers to the role")
	before, after = w.put(t, binding("a", "b", ref("Role", "r"), account("t1", "acct")))
	require.ElementsMatch(t, []string{"few", "many"}, i.Concerned(before, after))
	require.Equal(t, []string{"a"}, ask(t, i, "few", w, gettable("a", "b")))
	before, after = w.put(t, role("a", "r", "list :namespaces"))
	require.Equal(t, []string{"few"}, i.Concerned(before, after))
}

// namespaces returns the names of n namespaces, of which one is "a".
func namespaces(n int) []string {
	out := []string{"a"}
	for i := range n - 1 {
		out = append(out, fmt.Sprintf("ns-%d", i))
	}
	return out
}

// A RoleBinding in a stranger's namespace does not wake those who ask about a few other namespaces, whatever its subjects.
func TestAStrangersBindingConcernsOnlyItsNamespace(t *testing.T) {
	crowd := slices.Repeat([]rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "u"}}, maxIndexed+1)
	for name, subjects := range map[string][]rbacv1.Subject{
		"account": {account("t1", "acct")},
		"group":   {group("system:serviceaccounts")},
		"large":   append(crowd, account("t1", "acct")),
	} {
		w, i := newWorld(t), &Interests[string]{}
		gettable := func(namespaces ...string) question {
			return func(t testing.TB, l Listers) any {
				got, err := l.Gettable(ServiceAccount("t1", "acct"), namespaces)
				require.NoError(t, err)
				return got
			}
		}
		w.put(t, role("a", "r", "get :namespaces"))
		w.put(t, role("stranger", "r", "get :namespaces"))
		require.Empty(t, ask(t, i, "few", w, gettable("a", "b")))
		require.Empty(t, ask(t, i, "many", w, gettable(namespaces(500)...)))

		before, after := w.put(t, binding("stranger", "b", ref("Role", "r"), subjects...))
		require.Equal(t, []string{"many"}, i.Concerned(before, after), name)
		before, after = w.put(t, binding("a", "b", ref("Role", "r"), subjects...))
		require.ElementsMatch(t, []string{"few", "many"}, i.Concerned(before, after), name)
		require.Equal(t, []string{"a"}, ask(t, i, "few", w, gettable("a", "b")), name)
		before, after = w.put(t, binding("a", "b", ref("Role", "r")))
		require.ElementsMatch(t, []string{"few", "many"}, i.Concerned(before, after), name)
		require.Empty(t, ask(t, i, "few", w, gettable("a", "b")), name)
	}
}

func TestAStrangersLargeBindingIsLookedUpOnce(t *testing.T) {
	var crowd []rbacv1.Subject
	for i := range maxIndexed + 1 {
		crowd = append(crowd, account("t1", fmt.Sprint("acct-", i)))
	}
	before, after := binding("a", "b", ref("Role", "r"), crowd...), binding("a", "b", ref("Role", "r"), crowd[1:]...)
	require.Len(t, touched(nil, before), 5, "three of the binding, and two of all large ones")
	require.Len(t, touched(before, after), 5)
	require.Len(t, touched(after, before), 5)
	require.Empty(t, touched(before, before.DeepCopy()))
}

func TestGettableOmitsNamespacesOverTheLimit(t *testing.T) {
	me := account("t1", "acct")
	much := large("victim", "large", MaxValues/3+10)
	much.Rules = append(much.Rules, rules("get :namespaces")...)
	objects := []any{
		role("a", "r", "get :namespaces"), binding("a", "b", ref(kindRole, "r"), me),
		much, binding("victim", "b", ref(kindRole, "large"), me),
	}
	got, err := given(t, objects...).Gettable(ServiceAccount("t1", "acct"), []string{"a", "victim"})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, got)

	everywhere := clusterRole("all")
	everywhere.Rules = much.Rules
	objects = append(objects, everywhere, clusterBinding("all", ref(kindClusterRole, "all"), me))
	l := given(t, objects...)
	got, err = l.Gettable(ServiceAccount("t1", "acct"), []string{"a", "victim"})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, got, "a ClusterRole that exceeds the limit counts as no permissions")
	unknown, err := l.NotKept(ServiceAccount("t1", "acct"), []string{"b", "victim"})
	require.NoError(t, err)
	require.Equal(t, []string{"b", "victim"}, unknown, "but only the API server knows this")
}
