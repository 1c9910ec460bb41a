package install

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/rbac"
)

func on(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}

func serviceAccount(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// world contains RBAC objects that allow t1/acct to get pods in t1 and every account to list nodes.
type world struct{ roles, bindings, clusterRoles, clusterBindings cache.Indexer }

func newWorld(t *testing.T) world {
	t.Helper()
	indexer := func(objects ...any) cache.Indexer {
		i := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		for _, obj := range objects {
			require.NoError(t, i.Add(obj))
		}
		return i
	}
	meta := metav1.ObjectMeta{Namespace: "t1", Name: "r"}
	return world{
		roles: indexer(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{on("pods", "get")}}),
		bindings: indexer(&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}},
		}),
		clusterRoles: indexer(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Rules: []rbacv1.PolicyRule{on("nodes", "list")}}),
		clusterBindings: indexer(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "c"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "c"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"}},
		}),
	}
}

func (w world) checker() *CSVRuleChecker {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "op.v1"}}
	return NewCSVRuleChecker(rbacv1listers.NewRoleLister(w.roles), rbacv1listers.NewRoleBindingLister(w.bindings),
		rbacv1listers.NewClusterRoleLister(w.clusterRoles), rbacv1listers.NewClusterRoleBindingLister(w.clusterBindings), csv)
}

func TestRuleSatisfied(t *testing.T) {
	acct := serviceAccount("t1", "acct")
	url := rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}
	for _, row := range []struct {
		name      string
		sa        *corev1.ServiceAccount
		namespace string
		rule      rbacv1.PolicyRule
		want      bool
		err       string
	}{
		{"rule of a Role in its namespace", acct, "t1", on("pods", "get"), true, ""},
		{"rule of a Role in another namespace", acct, "t2", on("pods", "get"), false, ""},
		{"rule of a Role, cluster-wide", acct, rbac.ClusterScope, on("pods", "get"), false, ""},
		{"cluster-wide rule of a group", acct, rbac.ClusterScope, on("nodes", "list"), true, ""},
		{"cluster-wide rule of a group in a namespace", acct, "t2", on("nodes", "list"), true, ""},
		{"partly covered rule", acct, "t1", on("pods", "get", "list"), false, ""},
		{"another account of the namespace", serviceAccount("t1", "other"), "t1", on("pods", "get"), false, ""},
		{"an account of the same name in another namespace", serviceAccount("t2", "acct"), "t1", on("pods", "get"), false, ""},
		{"a rule without verbs", acct, "t1", on("pods"), false, `ClusterServiceVersion "op.v1": rule`},
		{"a URL in a namespace", acct, "t1", url, false, "only for the whole cluster"},
		{"a URL in the cluster", acct, rbac.ClusterScope, url, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := newWorld(t).checker().RuleSatisfied(row.sa, row.namespace, row.rule)
			require.Equal(t, row.want, got)
			if row.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.err)
		})
	}
}

func TestMissingRulesReturnsAllMissingRules(t *testing.T) {
	missing, err := newWorld(t).checker().MissingRules(serviceAccount("t1", "acct"), "t1",
		[]rbacv1.PolicyRule{on("pods", "get", "list"), on("nodes", "list"), on("secrets", "list")})
	require.NoError(t, err)
	want := on("pods", "list")
	want.Resources = []string{"pods", "secrets"}
	require.Equal(t, []rbacv1.PolicyRule{want}, missing)
}

func TestAnInvalidRuleIsAnError(t *testing.T) {
	missing, err := newWorld(t).checker().MissingRules(serviceAccount("t1", "acct"), "t1",
		[]rbacv1.PolicyRule{on("pods", "get"), {Resources: []string{"x"}, Verbs: []string{"get"}}})
	require.ErrorContains(t, err, "has no apiGroups")
	require.Empty(t, missing)
}

func TestRulesAreLimited(t *testing.T) {
	rules := make([]rbacv1.PolicyRule, 10_000)
	for i := range rules {
		rules[i] = on(fmt.Sprint("things", i), "get", "list", "watch", "update", "delete")
	}
	c, acct := newWorld(t).checker(), serviceAccount("t1", "acct")
	missing, err := c.MissingRules(acct, "t1", rules)
	require.NoError(t, err)
	require.Len(t, missing, 1, "rules that differ only in their resource are merged")
	for _, rule := range rules {
		ok, err := c.RuleSatisfied(acct, "t1", rule)
		require.NoError(t, err)
		require.False(t, ok)
	}
	missing, err = c.MissingRules(acct, "t1", append(rules, on("more", "get")))
	require.ErrorIs(t, err, rbac.ErrTooLarge)
	require.Empty(t, missing)
}

func TestACheckerCachesRules(t *testing.T) {
	w := newWorld(t)
	c := w.checker()
	ok, err := c.RuleSatisfied(serviceAccount("t1", "acct"), "t1", on("pods", "get"))
	require.NoError(t, err)
	require.True(t, ok)

	require.NoError(t, w.bindings.Replace(nil, ""))
	ok, err = c.RuleSatisfied(serviceAccount("t1", "acct"), "t1", on("pods", "get"))
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = w.checker().RuleSatisfied(serviceAccount("t1", "acct"), "t1", on("pods", "get"))
	require.NoError(t, err)
	require.False(t, ok)
}

func TestAnUnreadableBindingIsAnError(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.bindings.Add(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "odd"}, RoleRef: rbacv1.RoleRef{Kind: "Robot"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "acct"}},
	}))
	_, err := w.checker().MissingRules(serviceAccount("t1", "acct"), "t1", []rbacv1.PolicyRule{on("pods", "get")})
	require.ErrorContains(t, err, "effective rules of ServiceAccount t1/acct")
}

// One binding gives a large role to each ServiceAccount of a namespace. The rules of only few of them are kept.
func TestACheckerKeepsFewLargeRules(t *testing.T) {
	w := newWorld(t)
	large := on("secrets", "get")
	for i := range 190_000 {
		large.ResourceNames = append(large.ResourceNames, fmt.Sprint(i))
	}
	rules := func() []rbacv1.PolicyRule {
		own := large
		own.ResourceNames = slices.Clone(large.ResourceNames)
		return []rbacv1.PolicyRule{own}
	}
	const accounts = 12
	for i := range accounts {
		name := fmt.Sprint("a", i)
		require.NoError(t, w.roles.Add(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name}, Rules: rules()}))
		require.NoError(t, w.bindings.Add(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: name},
			RoleRef:  rbacv1.RoleRef{Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: name}}}))
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	c, before := w.checker(), live()
	for i := range accounts {
		missing, err := c.MissingRules(serviceAccount("t1", fmt.Sprint("a", i)), "t1", []rbacv1.PolicyRule{on("pods", "list")})
		require.NoError(t, err)
		require.Len(t, missing, 1)
	}
	require.Less(t, (int64(live())-int64(before))>>20, int64(40), "MiB")
	runtime.KeepAlive(c)
}

// Any account has no rules, so its own ones are not read.
func TestNoRulesAreCoveredWithoutReading(t *testing.T) {
	c := newWorld(t).checker()
	c.known = rbac.NewRecent(func(rulesKey) rbac.Permissions {
		require.Fail(t, "rules were read")
		return rbac.Permissions{}
	})
	missing, err := c.MissingRules(serviceAccount("t1", "acct"), "t1", nil)
	require.NoError(t, err)
	require.Empty(t, missing)
}
