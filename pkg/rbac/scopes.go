package rbac

import (
	"fmt"
	"slices"
)

// Scopes returns the sorted scopes in which bindings may grant permissions to the subject: the whole cluster, and each
// namespace with a RoleBinding that names the subject. A ServiceAccount may have permissions outside its own namespace.
func (l Listers) Scopes(s Subject) ([]string, error) {
	bindings, err := roleBindingsAnywhere(l.RoleBindings, s)
	if err != nil {
		return nil, fmt.Errorf("list RoleBindings: %w", err)
	}
	scopes := []string{ClusterScope}
	for _, b := range bindings {
		if applies(b.Subjects, s, b.Namespace) {
			scopes = append(scopes, b.Namespace)
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes), nil
}
