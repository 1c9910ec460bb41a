package install

import (
	"fmt"
	"runtime"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/rbac"
)

const benchmarkNamespaces = 1_000

// crowd is a cluster with n ClusterRoleBindings and n RoleBindings in a thousand namespaces, indexed like the
// controllers' informers.
type crowd struct{ roles, bindings, clusterRoles, clusterBindings cache.Indexer }

func newCrowd(tb testing.TB, n int) crowd {
	tb.Helper()
	store := func(indexers ...cache.Indexers) cache.Indexer {
		s := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		for _, more := range indexers {
			require.NoError(tb, s.AddIndexers(more))
		}
		return s
	}
	c := crowd{store(), store(rbac.BindingIndexers()), store(), store(rbac.BindingIndexers())}
	rules := csvRules()
	for i := range n {
		namespace := fmt.Sprint("ns", i%benchmarkNamespaces)
		name := fmt.Sprint("operator-", i)
		subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: fmt.Sprint("acct", i/benchmarkNamespaces)}}
		require.NoError(tb, c.roles.Add(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules[:20]}))
		require.NoError(tb, c.clusterRoles.Add(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules[20:]}))
		require.NoError(tb, c.bindings.Add(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name}, Subjects: subjects,
		}))
		require.NoError(tb, c.clusterBindings.Add(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, Subjects: subjects,
		}))
	}
	return c
}

func (c crowd) checker() *CSVRuleChecker {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "op.v1"}}
	return NewCSVRuleChecker(rbacv1listers.NewRoleLister(c.roles), rbac.NewRoleBindingLister(c.bindings),
		rbacv1listers.NewClusterRoleLister(c.clusterRoles), rbac.NewClusterRoleBindingLister(c.clusterBindings), csv)
}

// csvRules returns 40 rules that are typical of operators and expand to 480 combinations of group, resource and verb.
func csvRules() []rbacv1.PolicyRule {
	rules := make([]rbacv1.PolicyRule, 40)
	for i := range rules {
		rules[i] = rbacv1.PolicyRule{
			APIGroups: []string{fmt.Sprint("group", i/4, ".example.com")},
			Resources: []string{fmt.Sprint("things", i), fmt.Sprint("things", i, "/status")},
			Verbs:     []string{"get", "list", "watch", "create", "update", "patch"},
		}
	}
	return rules
}

// BenchmarkRuleSatisfied checks all rules of a CSV, as the requirement status does. The target for one run is less
// than 5 ms and 1 MB, regardless of the number of other bindings.
func BenchmarkRuleSatisfied(b *testing.B) {
	sa, rules := serviceAccount("ns7", "acct0"), csvRules()
	for _, n := range []int{100, 1_000, 10_000} {
		c := newCrowd(b, n)
		b.Run(fmt.Sprintf("40-rules/%d-bindings-of-each-kind", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				checker := c.checker()
				for _, rule := range rules {
					if ok, err := checker.RuleSatisfied(sa, "ns7", rule); err != nil || !ok {
						b.Fatal(ok, err)
					}
				}
			}
		})
	}
}

// BenchmarkHugeCSV checks 10,000 rules for an account that has all of them and for one that has none.
func BenchmarkHugeCSV(b *testing.B) {
	rules := make([]rbacv1.PolicyRule, 10_000)
	for i := range rules {
		rules[i] = rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{fmt.Sprint("things", i)}, Verbs: []string{"get", "list", "watch", "update"}}
	}
	c := newCrowd(b, 0)
	require.NoError(b, c.clusterRoles.Add(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "huge"}, Rules: rules}))
	require.NoError(b, c.clusterBindings.Add(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "huge"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "huge"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "holder"}},
	}))
	for _, row := range []struct {
		account string
		missing bool
	}{{"holder", false}, {"beggar", true}} {
		sa := serviceAccount("t1", row.account)
		b.Run("RuleSatisfied/"+row.account, func(b *testing.B) {
			for b.Loop() {
				checker := c.checker()
				for _, rule := range rules {
					if ok, err := checker.RuleSatisfied(sa, "t1", rule); err != nil || ok == row.missing {
						b.Fatal(ok, err)
					}
				}
			}
		})
		b.Run("MissingRules/"+row.account, func(b *testing.B) {
			for b.Loop() {
				if missing, err := c.checker().MissingRules(sa, "t1", rules); err != nil || len(missing) > 0 != row.missing {
					b.Fatal(len(missing), err)
				}
			}
		})
	}
}

// BenchmarkIndex builds the subject index over 20,000 bindings and reports the cost per binding.
func BenchmarkIndex(b *testing.B) {
	const n = 10_000
	c := newCrowd(b, n)
	bindings, clusterBindings := c.bindings.List(), c.clusterBindings.List()
	b.Run("20000-bindings", func(b *testing.B) {
		var kept []cache.Indexer
		for b.Loop() {
			kept = indexed(b, rbac.BindingIndexers(), bindings, clusterBindings)
		}
		b.StopTimer()
		runtime.KeepAlive(kept)
		with := heapOf(func() any { return indexed(b, rbac.BindingIndexers(), bindings, clusterBindings) })
		without := heapOf(func() any { return indexed(b, cache.Indexers{}, bindings, clusterBindings) })
		b.ReportMetric(float64(with-without)/(2*n), "B/binding")
	})
}

// indexed returns an indexer for each list, filled with the objects of the list.
func indexed(tb testing.TB, indexers cache.Indexers, lists ...[]any) []cache.Indexer {
	tb.Helper()
	var out []cache.Indexer
	for _, objects := range lists {
		s := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
		for _, obj := range objects {
			require.NoError(tb, s.Add(obj))
		}
		out = append(out, s)
	}
	return out
}

// heapOf returns the heap size, in bytes, of the value that make returns.
func heapOf(make func() any) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}
