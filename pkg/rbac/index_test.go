package rbac

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// indexed returns a copy of plain whose listers of bindings use the index.
func indexed(tb testing.TB, plain Listers, bindings []*rbacv1.RoleBinding, clusterBindings []*rbacv1.ClusterRoleBinding) Listers {
	tb.Helper()
	store := func() toolscache.Indexer {
		s := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		require.NoError(tb, s.AddIndexers(BindingIndexers()))
		return s
	}
	namespaced, cluster := store(), store()
	for _, b := range bindings {
		require.NoError(tb, namespaced.Add(b))
	}
	for _, b := range clusterBindings {
		require.NoError(tb, cluster.Add(b))
	}
	plain.RoleBindings, plain.ClusterRoleBindings = NewRoleBindingLister(namespaced), NewClusterRoleBindingLister(cluster)
	return plain
}

func TestTheIndexMatchesListing(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 200 {
		objects, bindings, clusterBindings := randomBindings(random)
		plain := given(t, objects...)
		fast := indexed(t, plain, bindings, clusterBindings)
		for _, namespace := range []string{ClusterScope, "t1", "t2"} {
			for _, s := range []Subject{ServiceAccount("t1", "a"), ServiceAccount("t2", "a"), {User: "u", Groups: []string{"system:serviceaccounts:t1"}}} {
				want, err := plain.EffectiveRules(s, namespace)
				require.NoError(t, err)
				got, err := fast.EffectiveRules(s, namespace)
				require.NoError(t, err)
				require.ElementsMatch(t, want, got)

				wantReach, err := plain.Scopes(s)
				require.NoError(t, err)
				gotReach, err := fast.Scopes(s)
				require.NoError(t, err)
				require.Equal(t, wantReach, gotReach)
			}
		}
	}
}

func TestTheIndexFollowsChanges(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	store := func() toolscache.Indexer {
		s := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		require.NoError(t, s.AddIndexers(BindingIndexers()))
		return s
	}
	roles, clusterRoles, bindings, clusterBindings := store(), store(), store(), store()
	slow := Listers{
		Roles: rbacv1listers.NewRoleLister(roles), RoleBindings: rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(clusterRoles), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(clusterBindings),
	}
	fast := slow
	fast.RoleBindings, fast.ClusterRoleBindings = NewRoleBindingLister(bindings), NewClusterRoleBindingLister(clusterBindings)
	given := 0
	for range 500 {
		// Objects are created, replaced or deleted; a role may be deleted before its bindings.
		objects, someBindings, someClusterBindings := randomBindings(random)
		i := random.Intn(len(someBindings))
		for _, change := range []struct {
			in  toolscache.Indexer
			obj any
		}{{clusterRoles, objects[3*i]}, {bindings, someBindings[i]}, {clusterBindings, someClusterBindings[i]}} {
			if random.Intn(3) == 0 {
				require.NoError(t, change.in.Delete(change.obj))
			} else {
				require.NoError(t, change.in.Update(change.obj))
			}
		}
		for _, s := range []Subject{ServiceAccount("t1", "a"), ServiceAccount("t2", "a"), {User: "u", Groups: []string{"system:serviceaccounts:t1"}}} {
			want, got := slow.Permissions(s, "t1"), fast.Permissions(s, "t1")
			require.ElementsMatch(t, want.Rules, got.Rules)
			require.ElementsMatch(t, want.Dangling, got.Dangling)
			given += len(got.Rules)
		}
	}
	require.Greater(t, given, 1_000)
}

// Bindings with many subjects have only a few index keys, because a key takes several times the memory of a subject.
func TestTheIndexDoesNotGrowWithSubjectsOfABinding(t *testing.T) {
	const many = 40_000
	keysOf := func(n int, subject func(int) rbacv1.Subject) (of, ofCluster []string) {
		var subjects []rbacv1.Subject
		for i := range n {
			subjects = append(subjects, subject(i))
		}
		of, err := indexKeys(binding("t1", "b", ref(kindRole, "r"), subjects...))
		require.NoError(t, err)
		ofCluster, err = indexKeys(clusterBinding("b", ref(kindClusterRole, "r"), subjects...))
		require.NoError(t, err)
		return of, ofCluster
	}
	for name, subject := range map[string]func(int) rbacv1.Subject{
		"own namespace":   func(i int) rbacv1.Subject { return account("t1", fmt.Sprint(i)) },
		"other namespace": func(i int) rbacv1.Subject { return account("t2", fmt.Sprint(i)) },
		"users":           func(i int) rbacv1.Subject { return user(fmt.Sprint(i)) },
	} {
		few, fewOfCluster := keysOf(maxIndexed, subject)
		require.GreaterOrEqual(t, len(few), maxIndexed, name)
		require.Len(t, fewOfCluster, maxIndexed, name)
		of, ofCluster := keysOf(many, subject)
		require.LessOrEqual(t, len(of), 2, name)
		require.Len(t, ofCluster, 1, name)
	}
	home, _ := keysOf(many, func(i int) rbacv1.Subject { return account("", fmt.Sprint(i)) })
	require.Len(t, home, 1, "subjects without a namespace apply only in the binding's namespace")
}

// randomBindings returns bindings with subjects of every kind, with and without namespaces, some of them duplicates.
func randomBindings(random *rand.Rand) (objects []any, bindings []*rbacv1.RoleBinding, clusterBindings []*rbacv1.ClusterRoleBinding) {
	subjects := []rbacv1.Subject{
		account("t1", "a"), account("t2", "a"), account("", "a"), user("u"), user("system:serviceaccount:t1:a"),
		group("system:serviceaccounts"), group("system:serviceaccounts:t1"), group("system:authenticated"), group("u"),
		{Kind: "Robot", Name: "a"},
	}
	some := func() []rbacv1.Subject {
		var out []rbacv1.Subject
		for range random.Intn(4) {
			out = append(out, subjects[random.Intn(len(subjects))])
		}
		if random.Intn(4) == 0 {
			crowd := []rbacv1.Subject{account("t1", "x"), account("", "x"), user("x")}[random.Intn(3)]
			out = append(slices.Repeat([]rbacv1.Subject{crowd}, maxIndexed), out...)
		}
		return out
	}
	for i := range 6 {
		name := fmt.Sprint("r", i)
		namespace := []string{"t1", "t2"}[random.Intn(2)]
		cluster := clusterRole(name)
		cluster.Rules = []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{name}}}
		b, cb := binding(namespace, name, ref("ClusterRole", name), some()...), clusterBinding(name, ref("ClusterRole", name), some()...)
		objects = append(objects, cluster, b, cb)
		bindings, clusterBindings = append(bindings, b), append(clusterBindings, cb)
	}
	return objects, bindings, clusterBindings
}

// BenchmarkEffectiveRules measures a query for one account in a cluster with the bindings of many other accounts.
func BenchmarkEffectiveRules(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		bindings, clusterBindings := make([]*rbacv1.RoleBinding, n), make([]*rbacv1.ClusterRoleBinding, n)
		for i := range n {
			owner := account(fmt.Sprint("ns", i%1000), fmt.Sprint("acct", i))
			bindings[i] = binding(owner.Namespace, fmt.Sprint("b", i), ref("ClusterRole", "view"), owner)
			clusterBindings[i] = clusterBinding(fmt.Sprint("b", i), ref("ClusterRole", "view"), owner)
		}
		roles := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
		view := clusterRole("view")
		view.Rules = []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
		require.NoError(b, roles.Add(view))
		l := indexed(b, Listers{ClusterRoles: rbacv1listers.NewClusterRoleLister(roles)}, bindings, clusterBindings)
		b.Run(fmt.Sprint(n, "-bindings-of-each-kind"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if granted, err := l.EffectiveRules(ServiceAccount("ns7", "acct7"), "ns7"); err != nil || len(granted) != 1 {
					b.Fatal(granted, err)
				}
			}
		})
	}
}
