package execute_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/proofs"
)

// nothingCached are listers of a cache that has seen nothing yet.
func nothingCached() rbac.Listers {
	index := func() toolscache.Indexer {
		return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	}
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(index()), ClusterRoles: rbacv1listers.NewClusterRoleLister(index()),
		RoleBindings: rbacv1listers.NewRoleBindingLister(index()), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(index()),
	}
}

// The cache may be behind: somebody may have emptied a role and bound it a moment ago.
func TestARoleIsFilledOnlyWhenNobodyElseIsBoundToIt(t *testing.T) {
	c, err := client.NewWithWatch(controlplane.Shared(t).Config(), client.Options{})
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "seal-"}}
	require.NoError(t, c.Create(t.Context(), ns))
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: ns.Name}, CSV: "p.v1", Proofs: proofs.Keys()}
	role := func(rules ...any) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": rules}}
		out.SetNamespace(ns.Name)
		out.SetName("r")
		out.SetLabels(owner.Labels())
		return out
	}
	rule := map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}
	named := map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"get"}, "resourceNames": []any{"s"}}
	rules := func() []rbacv1.PolicyRule {
		live := &rbacv1.Role{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "r"}, live))
		return live.Rules
	}
	roles := execute.Roles{RBAC: nothingCached(), Owner: owner, Live: c}

	_, _, err = apply.Ensure(t.Context(), c, role(), owner)
	require.NoError(t, err)
	theirs := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "theirs"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "stranger"}}}
	require.NoError(t, c.Create(t.Context(), theirs))

	_, _, err = roles.Ensure(t.Context(), c, role(rule, named))
	require.True(t, apply.IsCollision(err), "%v", err)
	require.ErrorContains(t, err, "RoleBinding "+ns.Name+"/theirs exists and is not ours")
	sealed := rules()
	require.Len(t, sealed, 1, "rules with names of their own cannot be narrowed")
	require.Len(t, sealed[0].ResourceNames, 1)
	_, _, err = roles.Ensure(t.Context(), c, role(rule, named))
	require.True(t, apply.IsCollision(err), "%v", err)
	require.NotEqual(t, sealed, rules(), "whoever has been bound to it may bind a seal that is used twice")

	require.NoError(t, c.Delete(t.Context(), theirs))
	for _, want := range []apply.Result{apply.Updated, apply.Unchanged} {
		result, _, err := roles.Ensure(t.Context(), c, role(rule, named))
		require.NoError(t, err)
		require.Equal(t, want, result)
		require.Len(t, rules(), 2)
		require.Empty(t, rules()[0].ResourceNames)
	}
}
