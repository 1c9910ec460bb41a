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

// maxNamed is the maximum number of lookups with which one question about namespaces is tracked by namespace. It leaves most of
// maxLookups to other questions.
const maxNamed = maxLookups / 4

// scopesAmong returns the scopes of which the caller needs only the given namespaces. Bindings in other namespaces, which strangers
// may write for any subject, wake the key only if there are too many namespaces to track each.
func (l Listers) scopesAmong(s Subject, namespaces []string) ([]string, error) {
	if noting, ok := l.RoleBindings.(notingRoleBindings); ok && len(namespaces)*(len(s.Groups)+2) <= maxNamed {
		for _, name := range namespaces {
			noting.note(userKeys(name, s)...)
		}
		l.RoleBindings = noting.in
	}
	return l.Scopes(s)
}
