package preflight

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// bloated returns listers of the ClusterRoles view, edit and admin after a stranger has added rules to them, and of RoleBindings in t1 of
// ServiceAccounts to them.
func bloated(t *testing.T, roles map[string]string) rbac.Listers {
	t.Helper()
	store := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	none, bindings, clusterRoles := store(), store(), store()
	var many []rbacv1.PolicyRule
	for i := range rbac.MaxRoleRules + 1 {
		many = append(many, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprint("r", i)}})
	}
	for name, into := range map[string]string{"view": "edit", "edit": "admin", "admin": "none"} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{rbac.AggregateTo + into: "true"}}, Rules: rbac.KeptRules(many)}
		role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{rbac.AggregateTo + name: "true"}}}}
		require.NoError(t, clusterRoles.Add(role))
	}
	for account, role := range roles {
		require.NoError(t, bindings.Add(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: account}},
		}))
	}
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(none), RoleBindings: rbacv1listers.NewRoleBindingLister(bindings),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(clusterRoles), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none),
	}
}

// allowing returns a Confirmer of an API server that allows any access to some resources.
func allowing(resources ...string) *Confirmer {
	return &Confirmer{Ask: func(_ context.Context, _ rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
		for _, r := range resources {
			if atom.Resources[0] == r {
				return true, nil
			}
		}
		return false, nil
	}}
}

// An account that is bound to admin still installs: the API server knows what it may do.
func TestTheAPIServerKnowsWhatAnAccountWithABloatedClusterRoleMay(t *testing.T) {
	account := scoped.Account{Namespace: "t1", Name: "acct"}.Identity()
	l := bloated(t, map[string]string{"acct": "admin"})
	needs := []Need{
		{Namespace: "t1", Cause: "grant", Granted: true, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods", "secrets"}}}},
		{Namespace: "t1", Cause: "write", Rules: []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}}}},
	}
	report := Examine(account, needs, func(namespace string) rbac.Permissions { return l.LowerBound(rbac.SubjectOf(account), namespace) })
	require.Nil(t, report.TooMuch)
	require.True(t, report.Blind, "answers are not kept, because no event tells that they have changed")
	require.Len(t, report.Unknown, 2)
	require.Contains(t, report.Unknown[0].Why, "more rules than Remit evaluates: admin")
	confirmed := allowing("pods", "secrets", "deployments").Confirm(t.Context(), "", report)
	require.True(t, confirmed.Clear())
	require.Empty(t, confirmed.Unknown)
	confirmed = allowing("pods", "deployments").Confirm(t.Context(), "", report)
	require.Len(t, confirmed.Findings, 1)
	require.Equal(t, []string{"secrets"}, confirmed.Findings[0].Missing[0].Resources)
	elsewhere := Examine(account, []Need{{Namespace: "t2", Rules: needs[1].Rules}}, func(namespace string) rbac.Permissions { return l.LowerBound(rbac.SubjectOf(account), namespace) })
	require.Len(t, elsewhere.Findings, 1)
	require.False(t, elsewhere.Blind)

	filter := NamespaceFilter{RBAC: l, Ask: allowing("namespaces").Ask}
	got, err := filter.Gettable(t.Context(), scoped.Account{Namespace: "t1", Name: "acct"}, []string{"t0", "t1"})
	require.NoError(t, err)
	require.Equal(t, []string{"t1"}, got, "the API server is asked only where the ClusterRole is bound")
	got, err = NamespaceFilter{RBAC: l, Ask: allowing().Ask}.Gettable(t.Context(), scoped.Account{Namespace: "t1", Name: "acct"}, []string{"t0", "t1"})
	require.NoError(t, err)
	require.Empty(t, got)
}

// Webhooks on Pods need what the ServiceAccounts of a target have. Those that are bound to view do not make this all ServiceAccounts of the cluster.
func TestABloatedClusterRoleDoesNotRequireEveryIdentity(t *testing.T) {
	for role, want := range map[string]int{"admin": 0, "view": 0, "": 1} {
		t.Run(role, func(t *testing.T) {
			roles := map[string]string{"ci": "view"}
			if role != "" {
				roles["acct"] = role
			}
			i := Identities{Account: scoped.Account{Namespace: "t1", Name: "acct"}.Identity(), RBAC: bloated(t, roles), In: func(string) ([]string, error) { return []string{"ci"}, nil }}
			needs, err := i.Resolve([]Need{{Namespace: "t1", Identities: true, Unenforced: true, Cause: "intercept Pods"}})
			require.NoError(t, err)
			require.Len(t, needs, want)
			if want == 0 {
				return
			}
			require.Equal(t, "t1", needs[0].Namespace)
			require.Equal(t, rbac.RequestToken("ci"), needs[0].Rules, "a token of this one gives everything that it has")
			require.True(t, needs[0].Unenforced)
			require.True(t, needs[0].Hidden)
			require.NotContains(t, needs[0].Cause, "ci ", "the account may not list ServiceAccounts")
			i.Home = "t1"
			needs, err = i.Resolve([]Need{{Namespace: "t1", Identities: true}})
			require.NoError(t, err)
			require.False(t, needs[0].Hidden)
			require.Contains(t, needs[0].Cause, "act as ServiceAccount t1/ci")
		})
	}
}

// A bundle that binds view is not to blame for the rules that others have added to it.
func TestABindingToABloatedClusterRoleIsNotRefused(t *testing.T) {
	l := bloated(t, nil)
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"namespace": "t1", "name": "b"},
		"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": "view"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "t1", "name": "operator"}},
	}}
	needs := rolesOf(nil, l.RulesOf).needs(obj)
	require.Len(t, needs, 1)
	report := Examine(bounded, needs, func(namespace string) rbac.Permissions { return l.LowerBound(rbac.SubjectOf(bounded), namespace) })
	require.False(t, report.Final())
	require.True(t, report.Clear(), "the API server decides when the binding is written")
	require.Len(t, report.Unknown, 1)
	report = allowing("clusterroles").Confirm(t.Context(), "", report)
	require.Empty(t, report.Unknown)
	require.Len(t, report.Allowed, 1, "the account may bind it")
}

// What is not decided about a namespace must not remove the roles there.
func TestNamespacesThatAreNotDecidedAreAnError(t *testing.T) {
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	l := bloated(t, nil)
	l.ClusterRoleBindings = rbacv1listers.NewClusterRoleBindingLister(none)
	require.NoError(t, none.Add(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "acct"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: "acct"}}}))
	account := scoped.Account{Namespace: "t1", Name: "acct"}
	namespaces := make([]string, maxAsked+1)
	for i := range namespaces {
		namespaces[i] = fmt.Sprint("ns", i)
	}
	got, err := NamespaceFilter{RBAC: l, Ask: allowing("namespaces").Ask}.Gettable(t.Context(), account, namespaces[1:])
	require.NoError(t, err)
	require.Equal(t, namespaces[1:], got)
	_, err = NamespaceFilter{RBAC: l, Ask: allowing("namespaces").Ask}.Gettable(t.Context(), account, namespaces)
	require.EqualValues(t, "AccountHoldsTooMuch", scoped.ReasonOf(err))

	failing := func(_ context.Context, _ rbac.Subject, namespace string, _ rbacv1.PolicyRule) (bool, error) {
		if namespace == "ns700" {
			return false, errors.New("no answer")
		}
		return true, nil
	}
	got, err = NamespaceFilter{RBAC: l, Ask: failing}.Gettable(t.Context(), account, namespaces[1:])
	require.NotContains(t, err.Error(), "ns700", "readers may not be allowed to see it")
	require.ErrorContains(t, errors.Unwrap(err), "may get Namespace ns700")
	require.Empty(t, got)
}

// Users of a target determine how many permissions its ServiceAccounts have, and so how many questions there are.
func TestManyQuestionsDoNotKeepAWebhook(t *testing.T) {
	hook := func(kind, group string, resources ...any) *unstructured.Unstructured {
		selector := map[string]any{"key": "kubernetes.io/metadata.name", "operator": "In", "values": []any{"t1"}}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": "a"},
			"webhooks": []any{map[string]any{
				"name": "a.example.com", "namespaceSelector": map[string]any{"matchExpressions": []any{selector}},
				"rules": []any{map[string]any{"apiGroups": []any{group}, "apiVersions": []any{"v1"}, "resources": resources, "operations": []any{"CREATE"}, "scope": "Namespaced"}},
			}},
		}}
	}
	var many []any
	for i := range MaxReviews + 1 {
		many = append(many, fmt.Sprint("r", i))
	}
	l := bloated(t, map[string]string{"acct": "admin"})
	roles := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	l.Roles = rbacv1listers.NewRoleLister(roles)
	bindings := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	all, err := l.RoleBindings.List(labels.Everything())
	require.NoError(t, err)
	for _, b := range all {
		require.NoError(t, bindings.Add(b))
	}
	l.RoleBindings = rbacv1listers.NewRoleBindingLister(bindings)
	reader := fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1", Labels: map[string]string{"kubernetes.io/metadata.name": "t1"}}})
	for name, rule := range map[string]rbacv1.PolicyRule{
		"aaa": {APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
		"x":   {APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
	} {
		if name == "aaa" {
			for i := range MaxReviews + 1 {
				rule.ResourceNames = append(rule.ResourceNames, fmt.Sprint("c", i))
			}
		}
		meta := metav1.ObjectMeta{Namespace: "t1", Name: name}
		reader = reader.WithObjects(&corev1.ServiceAccount{ObjectMeta: meta})
		require.NoError(t, roles.Add(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}))
		require.NoError(t, bindings.Add(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "t1", Name: name}}}))
	}
	cached := reader.Build()
	for allowed, want := range map[string]int{"configmaps": 1, "serviceaccounts/token": 0} {
		t.Run(allowed, func(t *testing.T) {
			in := Interceptions{Reader: cached, RBAC: l, Identities: []scoped.Identity{scoped.Account{Namespace: "t1", Name: "acct"}.Identity()},
				Confirmer: allowing("pods", allowed)}
			cuts, err := in.Cut(t.Context(), hook("MutatingWebhookConfiguration", "", "pods"))
			require.NoError(t, err)
			require.Len(t, cuts, want)
		})
	}
	in := Interceptions{Reader: cached, RBAC: l, Identities: []scoped.Identity{scoped.Account{Namespace: "t1", Name: "acct"}.Identity()},
		Confirmer: &Confirmer{Ask: func(context.Context, rbac.Subject, string, rbacv1.PolicyRule) (bool, error) { return true, nil }}}
	cuts, err := in.Cut(t.Context(), hook("ValidatingWebhookConfiguration", "example.com", many...))
	require.NoError(t, err)
	require.Len(t, cuts, 1, "not all is asked about what it intercepts itself")
}
