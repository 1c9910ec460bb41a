package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// BindingsOf returns the bindings that refer to a role and have subjects, whether or not the role exists: for a Role,
// RoleBindings of its namespace; for a ClusterRole, RoleBindings of all namespaces and ClusterRoleBindings. It examines
// all bindings in this scope, so call it only before creating a role. Each returned binding is tracked as a lookup.
func (l Listers) BindingsOf(ref rbacv1.RoleRef, namespace string) ([]Binding, error) {
	quiet := l.Untracked()
	refers := func(to rbacv1.RoleRef, subjects []rbacv1.Subject) bool {
		return to.Name == ref.Name && to.Kind == ref.Kind && len(subjects) > 0
	}
	list := quiet.RoleBindings.RoleBindings(namespace).List
	if ref.Kind == kindClusterRole {
		list = quiet.RoleBindings.List
	}
	bindings, err := list(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list RoleBindings: %w", err)
	}
	var out []Binding
	for _, b := range bindings {
		if refers(b.RoleRef, b.Subjects) {
			_, _ = l.RoleBindings.RoleBindings(b.Namespace).Get(b.Name) // tracks the lookup
			out = append(out, b)
		}
	}
	if ref.Kind != kindClusterRole {
		return out, nil
	}
	clusterBindings, err := quiet.ClusterRoleBindings.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	for _, b := range clusterBindings {
		if refers(b.RoleRef, b.Subjects) {
			_, _ = l.ClusterRoleBindings.Get(b.Name)
			out = append(out, b)
		}
	}
	return out, nil
}
