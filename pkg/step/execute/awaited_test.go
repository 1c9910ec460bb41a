package execute

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/test/env/proofs"
)

func TestBindingsToAnUnfilledRoleAreCollisions(t *testing.T) {
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
	someone := []rbacv1.Subject{{Kind: "User", Name: "other"}}
	rules := func(r *unstructured.Unstructured, resource string, names ...any) *unstructured.Unstructured {
		rule := map[string]any{"apiGroups": []any{""}, "resources": []any{resource}, "verbs": []any{"get"}}
		if len(names) > 0 {
			rule["resourceNames"] = names
		}
		r.Object["rules"] = []any{rule}
		proofs.Mark(r, owner)
		return r
	}
	full := rules(role("Role", "n", rendered), "pods")
	binding := func(namespace, kind string, edits ...func(*rbacv1.RoleBinding)) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}, Subjects: someone,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: "r"}}
		for _, e := range edits {
			e(b)
		}
		return b
	}
	operators := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "n", Name: "operator"}}
	own := func(edits ...func(*rbacv1.RoleBinding)) *rbacv1.RoleBinding {
		return binding("n", "Role", append([]func(*rbacv1.RoleBinding){func(b *rbacv1.RoleBinding) {
			b.Name, b.Subjects = "own", operators
			proofs.Mark(b, owner)
		}}, edits...)...)
	}
	elsewhere := "(kubectl get rolebindings -A -o wide, ROLE "
	for _, tc := range []struct {
		name       string
		role, live *unstructured.Unstructured
		by         any
		wrong      string
	}{
		{"a Role with another owner's binding", role("Role", "n", rendered), nil, binding("n", "Role"),
			"RoleBinding n/theirs already exists and was not created by this install: it refers to Role n/r and would grant its subjects the operator's permissions; it was not changed: delete it"},
		{"a Role in a target namespace", role("Role", "t", rendered), nil, binding("t", "Role"), "a RoleBinding in namespace t already exists and was not created by this install: it refers to Role t/r and would"},
		{"a Role in a target namespace, with a remedy", role("Role", "t", rendered), nil, binding("t", "Role"), elsewhere + "Role/r)"},
		{"a Role of the same name in another namespace", role("Role", "n", rendered), nil, binding("t", "Role"), ""},
		{"a ClusterRole of that name", role("Role", "n", rendered), nil, binding("n", "ClusterRole"), ""},
		{"a ClusterRole with a binding in another namespace", role("ClusterRole", "", rendered), nil, binding("t", "ClusterRole"), ""},
		{"a ClusterRole with a binding in the install's namespace", role("ClusterRole", "", rendered), nil, binding("n", "ClusterRole"), "RoleBinding n/theirs already exists"},
		{"a ClusterRole with a ClusterRoleBinding", role("ClusterRole", "", rendered), nil,
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Subjects: someone, RoleRef: binding("", "ClusterRole").RoleRef}, "ClusterRoleBinding theirs"},
		{"a binding without subjects", role("Role", "n", rendered), nil, binding("n", "Role", func(b *rbacv1.RoleBinding) { b.Subjects = nil }), ""},
		{"the install's own binding", role("Role", "n", rendered), nil, own(), ""},
		{"the install's own binding with other subjects", role("Role", "n", rendered), nil, own(func(b *rbacv1.RoleBinding) { b.Subjects = someone }),
			"RoleBinding n/own no longer matches what this install created: its subjects were changed, and Role n/r would grant them the operator's permissions; it was not changed: delete it, and it will be recreated"},
		{"the install's own binding with an additional subject", role("Role", "n", rendered), nil, own(func(b *rbacv1.RoleBinding) { b.Subjects = append(someone, operators...) }), "its subjects were changed"},
		{"the install's own binding, which this version does not render", role("Role", "n", rendered), nil, own(func(b *rbacv1.RoleBinding) { b.Name = "earlier" }), "RoleBinding n/earlier"},
		{"another binding with the install's labels", role("Role", "n", rendered), nil, own(func(b *rbacv1.RoleBinding) { b.Annotations = nil }), "RoleBinding n/own already exists"},
		{"a Role of the bundle", role("Role", "n", nil), nil, binding("n", "Role"), ""},
		{"a Role whose rules were removed", full, rules(role("Role", "n", rendered), "nothing"), binding("n", "Role"), "RoleBinding n/theirs already exists"},
		{"a Role with narrower rules", full, rules(role("Role", "n", rendered), "pods", "mine"), binding("n", "Role"), "RoleBinding n/theirs already exists"},
		{"a Role that has its rules", full, rules(role("Role", "n", rendered), "pods"), binding("n", "Role"), ""},
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
				e := &Executor{rendered: []*unstructured.Unstructured{encoded(t, own())}, RBAC: rbac.Listers{
					Roles: rbacv1listers.NewRoleLister(index()), ClusterRoles: rbacv1listers.NewClusterRoleLister(index()),
					RoleBindings: rbac.NewRoleBindingLister(bindings), ClusterRoleBindings: rbac.NewClusterRoleBindingLister(clusterBindings),
				}}
				state := State{Step: step.Step{Object: tc.role, Owner: owner}, Live: tc.live}
				err := e.check(t.Context(), state)
				if tc.wrong == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, tc.wrong)
				_, err = e.Do(t.Context(), state)
				require.ErrorContains(t, err, tc.wrong, "the role is not written later either")
			})
		}
	}
}

func encoded(t *testing.T, b *rbacv1.RoleBinding) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b)
	require.NoError(t, err)
	obj := &unstructured.Unstructured{Object: content}
	obj.SetKind("RoleBinding")
	return obj
}
