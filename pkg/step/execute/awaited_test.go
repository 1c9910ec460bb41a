package execute

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/test/env/proofs"
)

func TestNobodyWaitsForAnOperatorsRole(t *testing.T) {
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: "n"}, CSV: "p.v1", Proofs: proofs.Keys()}
	role := func(kind, namespace string, labels map[string]string) *unstructured.Unstructured {
		out := &unstructured.Unstructured{}
		out.SetAPIVersion("rbac.authorization.k8s.io/v1")
		out.SetKind(kind)
		out.SetNamespace(namespace)
		out.SetName("r")
		out.SetLabels(labels)
		return out
	}
	rendered := map[string]string{names.LabelPermissionsHash: "x"}
	someone := []rbacv1.Subject{{Kind: "User", Name: "stranger"}}
	binding := func(namespace, kind string, edits ...func(*rbacv1.RoleBinding)) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}, Subjects: someone,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "r"}}
		for _, e := range edits {
			e(b)
		}
		return b
	}
	for _, tc := range []struct {
		name  string
		role  *unstructured.Unstructured
		by    any
		wrong string
	}{
		{"a Role that a stranger's binding waits for", role("Role", "n", rendered), binding("n", "Role"), "RoleBinding n/theirs exists and is not ours: it refers to Role n/r"},
		{"a Role of a target", role("Role", "t", rendered), binding("t", "Role"), "RoleBinding t/theirs"},
		{"a Role of that name elsewhere", role("Role", "n", rendered), binding("t", "Role"), ""},
		{"a ClusterRole of that name", role("Role", "n", rendered), binding("n", "ClusterRole"), ""},
		{"a ClusterRole, from another namespace", role("ClusterRole", "", rendered), binding("t", "ClusterRole"), "a RoleBinding of another namespace"},
		{"a ClusterRole, in the whole cluster", role("ClusterRole", "", rendered),
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Subjects: someone, RoleRef: binding("", "ClusterRole").RoleRef}, "ClusterRoleBinding theirs"},
		{"a binding of nobody", role("Role", "n", rendered), binding("n", "Role", func(b *rbacv1.RoleBinding) { b.Subjects = nil }), ""},
		{"the install's own", role("Role", "n", rendered), binding("n", "Role", func(b *rbacv1.RoleBinding) { proofs.Mark(b, owner) }), ""},
		{"one with its labels", role("Role", "n", rendered), binding("n", "Role", func(b *rbacv1.RoleBinding) { b.Labels = owner.Labels() }), "RoleBinding n/theirs"},
		{"a Role that the bundle brings", role("Role", "n", nil), binding("n", "Role"), ""},
	} {
		for _, indexers := range []toolscache.Indexers{{}, rbac.BindingIndexers()} {
			t.Run(tc.name, func(t *testing.T) {
				index := func() toolscache.Indexer { return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, indexers) }
				bindings, clusterBindings := index(), index()
				if _, ok := tc.by.(*rbacv1.ClusterRoleBinding); ok {
					require.NoError(t, clusterBindings.Add(tc.by))
				} else {
					require.NoError(t, bindings.Add(tc.by))
				}
				e := &Executor{RBAC: rbac.Listers{
					Roles: rbacv1listers.NewRoleLister(index()), ClusterRoles: rbacv1listers.NewClusterRoleLister(index()),
					RoleBindings: rbac.NewRoleBindingLister(bindings), ClusterRoleBindings: rbac.NewClusterRoleBindingLister(clusterBindings),
				}}
				err := e.check(State{Step: step.Step{Object: tc.role, Owner: owner}})
				if tc.wrong == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, tc.wrong)
			})
		}
	}
}
