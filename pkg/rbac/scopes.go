package rbac

import (
	"fmt"
	"slices"
)

// Scopes returns the scopes in which bindings may give the subject something: the whole cluster, and each
// namespace with a RoleBinding that names the subject, since a ServiceAccount's reach does not end at
// its own. They are sorted.
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
