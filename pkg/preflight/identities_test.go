package preflight

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
)

// A ClusterServiceVersion may have hundreds of webhooks, each of which can make workloads run as any ServiceAccount.
func TestListsTheServiceAccountsOfANamespaceOnce(t *testing.T) {
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	var asked []string
	i := Identities{Account: bounded, RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(none), RoleBindings: rbacv1listers.NewRoleBindingLister(none),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(none), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none),
	}, In: func(namespace string) ([]string, error) {
		asked = append(asked, namespace)
		return []string{"default"}, nil
	}}
	var needs []Need
	for range 500 {
		needs = append(needs, Need{Namespace: "t1", Identities: true}, Need{Namespace: "t2", Identities: true}, Need{Namespace: "t1", Object: "x"})
	}
	out, err := i.Resolve(needs)
	require.NoError(t, err)
	require.Equal(t, []string{"t1", "t2"}, asked)
	require.Len(t, out, 500, "other needs are kept")
}

// The author of a RoleBinding gives away what is theirs. If that counted, everybody could stop webhooks of others.
func TestBindingsInOtherNamespacesCountOnlyIfInstallsCreatedThem(t *testing.T) {
	store := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	roles, bindings, clusterRoles, clusterBindings := store(), store(), store(), store()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	require.NoError(t, roles.Add(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t9", Name: "r"}, Rules: rules}))
	require.NoError(t, clusterRoles.Add(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: rules}))
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "op"}}
	i := Identities{Account: bounded, Proofs: proofs.Keys(), RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(roles), RoleBindings: rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(clusterRoles), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(clusterBindings),
	}, In: func(string) ([]string, error) { return []string{"op"}, nil }}
	resolved := func() []Need {
		t.Helper()
		out, err := i.Resolve([]Need{{Namespace: "t1", Identities: true, Unenforced: true}})
		require.NoError(t, err)
		return out
	}
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "t9", Name: "b-" + ownerutil.Hash("of another ServiceAccount")}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"}}
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "demo", Namespace: "t1"}, CSV: "demo.v1", Proofs: proofs.Keys()}
	b.Labels = owner.Labels()
	require.NoError(t, bindings.Add(b))
	require.Empty(t, resolved())
	proofs.Mark(b, owner)
	require.Empty(t, resolved(), "it is not what the install created for the ServiceAccount")
	require.NoError(t, bindings.Delete(b))
	encoded, err := json.Marshal(rules)
	require.NoError(t, err)
	b.Name = "demo.v1-" + owner.GrantHash("op", "t9", encoded)
	proofs.Mark(b, owner)
	require.NoError(t, bindings.Add(b))
	require.Len(t, resolved(), 1)
	require.True(t, resolved()[0].Hidden)
	require.True(t, resolved()[0].Unenforced)
	require.NoError(t, bindings.Delete(b))
	require.NoError(t, clusterBindings.Add(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "r"}}))
	require.Len(t, resolved(), 1, "a ClusterRoleBinding needs an administrator")
}

// The author of an OperatorGroup may list any namespace as a target, and read the report.
func TestTheReportShowsOfOtherNamespacesWhatTheAccountMayList(t *testing.T) {
	store := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	none, roles, bindings := store(), store(), store()
	i := Identities{Account: bounded, Home: "home", RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(roles), RoleBindings: rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(none), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none),
	}, In: func(string) ([]string, error) { return []string{"billing", "payroll"}, nil }}
	grant := func(name string, subjects []rbacv1.Subject, rules ...rbacv1.PolicyRule) {
		meta := metav1.ObjectMeta{Namespace: "victim", Name: name}
		require.NoError(t, roles.Add(&rbacv1.Role{ObjectMeta: meta, Rules: rules}))
		require.NoError(t, bindings.Add(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}))
	}
	grant("own", []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "victim", Name: "billing"}, {Kind: rbacv1.ServiceAccountKind, Namespace: "victim", Name: "payroll"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"stripe-key"}, Verbs: []string{"get"}})
	report := func() (Report, string) {
		t.Helper()
		needs, err := i.Resolve([]Need{{Namespace: "victim", Identities: true, Unenforced: true, Cause: "intercept"}})
		require.NoError(t, err)
		require.Len(t, needs, 2)
		r := Examine(bounded, needs, func(namespace string) rbac.Permissions { return i.RBAC.LowerBound(rbac.SubjectOf(bounded), namespace) })
		r.Unknown = append(r.Unknown, r.Findings...)
		r.Allowed = append(r.Allowed, r.Findings...)
		text, err := json.Marshal(r.Document())
		require.NoError(t, err)
		return r, string(text) + string(r.Summary())
	}
	r, text := report()
	require.Equal(t, []string{"permissions in namespace victim that a ServiceAccount of namespace victim has, which are not shown here (intercept)"}, r.HiddenCauses())
	require.Empty(t, r.Scopes())
	for _, secret := range []string{"stripe-key", "billing", "payroll"} {
		require.NotContains(t, text, secret)
	}
	account := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: bounded.Account.Namespace, Name: bounded.Account.Name}}
	list := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list"}}
	}
	grant("names", account, list("", "serviceaccounts"), list(rbacv1.GroupName, "rolebindings"))
	r, text = report()
	require.Len(t, r.HiddenCauses(), 2)
	require.Contains(t, text, "ServiceAccount victim/billing")
	require.NotContains(t, text, "stripe-key", "it may not list Roles")
	grant("names", account, list(rbacv1.GroupName, "roles", "rolebindings"))
	_, text = report()
	require.Contains(t, text, "stripe-key")
	require.NotContains(t, text, "billing", "it may not list ServiceAccounts")
	i.Home = "victim"
	_, text = report()
	require.Contains(t, text, "ServiceAccount victim/billing has this permission", "its users can read them")
}

// The permissions that ServiceAccounts have and the account does not are kept in memory, for up to 200 ServiceAccounts.
func TestLimitsThePermissionsOfServiceAccounts(t *testing.T) {
	store := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	none, roles, bindings := store(), store(), store()
	large := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "large"}}
	for n := range rbac.MaxValues / 30 {
		large.Rules = append(large.Rules, rbacv1.PolicyRule{Verbs: []string{fmt.Sprint("v", n)}, APIGroups: []string{""}, Resources: []string{fmt.Sprint("r", n)}})
	}
	require.NoError(t, roles.Add(large))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "large"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "large"},
	}
	var names []string
	i := Identities{Account: bounded, RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(roles), RoleBindings: rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(none), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none),
	}, In: func(string) ([]string, error) { return names, nil }}
	resolved := func(accounts int) []Need {
		for len(names) < accounts {
			names = append(names, fmt.Sprint("sa", len(names)))
			binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: names[len(names)-1]})
		}
		require.NoError(t, bindings.Update(binding))
		out, err := i.Resolve([]Need{{Namespace: "t1", Identities: true}, {Namespace: "t2", Identities: true}})
		require.NoError(t, err)
		return out
	}
	require.Len(t, resolved(9), 9)
	most := resolved(40)
	require.Len(t, most, 1)
	require.Equal(t, []string{"serviceaccounts/token"}, most[0].Rules[0].Resources)
}
