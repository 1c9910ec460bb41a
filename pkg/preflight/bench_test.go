package preflight_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
)

// unrelatedBindings is the number of RoleBindings, and of ClusterRoleBindings, for subjects other than the account.
const unrelatedBindings = 10_000

// stepsOf returns the steps of a bundle with at least n objects: those of the sample bundle, and additional ConfigMaps, Services
// and Roles.
func stepsOf(b *testing.B, n int) []step.Step {
	b.Helper()
	bundle := sampleBundle(b)
	for i := range n - 7 { // the sample bundle has 7 objects
		obj := &unstructured.Unstructured{}
		kind := []string{"ConfigMap", "Service", "Role"}[i%3]
		obj.SetAPIVersion("v1")
		if kind == "Role" {
			obj.SetAPIVersion(rbacv1.SchemeGroupVersion.String())
			obj.Object["rules"] = []any{map[string]any{"apiGroups": []any{"apps"}, "resources": []any{"deployments", "statefulsets"},
				"resourceNames": []any{fmt.Sprintf("app-%d", i)}, "verbs": []any{"get", "list", "watch", "update"}}}
		}
		obj.SetKind(kind)
		obj.SetName(fmt.Sprintf("object-%d", i))
		bundle.Objects = append(bundle.Objects, obj)
	}
	steps, err := build.NewStepResourceFromBundle(bundle, scope("team-a"), build.Unchecked{})
	require.NoError(b, err)
	require.GreaterOrEqual(b, len(steps.Steps), n)
	return steps.Steps
}

// crowded returns the listers of a cluster in which the account has the rules of the given scopes and many bindings
// refer to other subjects.
func crowded(b *testing.B, scopes []preflight.Scope) rbac.Listers {
	b.Helper()
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	roles, clusterRoles, bindings, clusterBindings := indexer(), indexer(), indexer(), indexer()
	require.NoError(b, bindings.AddIndexers(rbac.BindingIndexers()))
	require.NoError(b, clusterBindings.AddIndexers(rbac.BindingIndexers()))
	add := func(namespace, name string, who string, rules []rbacv1.PolicyRule) {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
		subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "team-a", Name: who}}
		if namespace == rbac.ClusterScope {
			require.NoError(b, clusterRoles.Add(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}))
			require.NoError(b, clusterBindings.Add(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name}}))
			return
		}
		require.NoError(b, roles.Add(&rbacv1.Role{ObjectMeta: meta, Rules: rules}))
		require.NoError(b, bindings.Add(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name}}))
	}
	for i := range unrelatedBindings {
		add("team-a", fmt.Sprintf("other-%d", i), fmt.Sprintf("other-%d", i), nil)
		add(rbac.ClusterScope, fmt.Sprintf("other-%d", i), fmt.Sprintf("other-%d", i), nil)
	}
	for _, s := range scopes {
		add(s.Namespace, "own", account().Account.Name, s.Rules)
	}
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(roles), ClusterRoles: rbacv1listers.NewClusterRoleLister(clusterRoles),
		RoleBindings: rbac.NewRoleBindingLister(bindings), ClusterRoleBindings: rbac.NewClusterRoleBindingLister(clusterBindings),
	}
}

// BenchmarkPreflight measures a preflight of bundles of two sizes, without SubjectAccessReviews: the check, which computes the
// needs and the missing rules, and the check together with rendering the report in all forms.
func BenchmarkPreflight(b *testing.B) {
	for _, objects := range []int{40, 100} {
		b.Run(fmt.Sprintf("%d-objects", objects), func(b *testing.B) { benchmarkPreflight(b, stepsOf(b, objects)) })
	}
}

func benchmarkPreflight(b *testing.B, steps []step.Step) {
	b.Helper()
	check := func(b *testing.B, l rbac.Listers) preflight.Report {
		needs, err := preflight.NeedsOf(steps, l.RulesOf, func(step.Step) bool { return false })
		require.NoError(b, err)
		return preflight.Examine(account(), needs, func(namespace string) rbac.Permissions {
			return l.Permissions(rbac.SubjectOf(account()), namespace)
		})
	}
	all := check(b, crowded(b, nil)).Scopes()
	for name, scopes := range map[string][]preflight.Scope{
		"account-has-nothing": nil, "account-has-all": all,
		"account-is-admin": {{Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}},
	} {
		listers := crowded(b, scopes)
		b.Run(name+"/check", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check(b, listers)
			}
		})
		b.Run(name+"/check-and-report", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				report := check(b, listers)
				_ = string(report.Summary())
				_, err := report.Files()
				require.NoError(b, err)
			}
		})
	}
}
