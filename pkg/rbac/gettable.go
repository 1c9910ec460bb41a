package rbac

import (
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Gettable returns those of the given namespaces that the subject is allowed to get, in the same order. The API server
// authorizes a request for a Namespace in that namespace, so a Role there can allow it as well as a ClusterRole.
func (l Listers) Gettable(s Subject, namespaces []string) ([]string, error) {
	return l.Covered(s, namespaces, GetNamespaceRules)
}

// Covered returns those of the given namespaces in which the subject has all permissions that rules returns for the
// namespace, in the same order. Of many namespaces, the tracked lookups do not grow with their number: RoleBindings are then looked up by
// subject only. Namespaces in which the subject's roles exceed MaxValues are omitted; see also NotKept.
func (l Listers) Covered(s Subject, namespaces []string, rules func(namespace string) []rbacv1.PolicyRule) ([]string, error) {
	everywhere := l.Permissions(s, ClusterScope)
	if err := errors.Join(everywhere.ReadErrors...); err != nil {
		return nil, fmt.Errorf("determine the effective rules of %s: %w", s.User, err)
	}
	covered := map[string]bool{}
	for _, name := range namespaces {
		covered[name] = everywhere.Set().Covers(rules(name))
	}
	if !slices.ContainsFunc(namespaces, func(name string) bool { return !covered[name] }) {
		return slices.Clone(namespaces), nil
	}
	bound, err := l.scopesAmong(s, namespaces)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range namespaces {
		if _, isBound := slices.BinarySearch(bound, name); !covered[name] && isBound {
			there := l.LowerBound(s, name)
			if err := errors.Join(there.ReadErrors...); err != nil {
				return nil, fmt.Errorf("determine the effective rules of %s: %w", s.User, err)
			}
			covered[name] = there.Set().Covers(rules(name))
		}
		if covered[name] {
			out = append(out, name)
		}
	}
	return out, nil
}

// NotKept returns those of the given namespaces in which the subject has ClusterRoles with more rules than are kept, in the same order.
// Of those that Covered omits, only the API server knows what the subject may do there.
func (l Listers) NotKept(s Subject, namespaces []string) ([]string, error) {
	if len(namespaces) == 0 || len(l.Permissions(s, ClusterScope).NotKept) > 0 {
		return namespaces, nil
	}
	bound, err := l.scopesAmong(s, namespaces)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range namespaces {
		if _, isBound := slices.BinarySearch(bound, name); isBound && len(l.LowerBound(s, name).NotKept) > 0 {
			out = append(out, name)
		}
	}
	return out, nil
}

// GetNamespaceRules returns the rules that allow getting a Namespace.
func GetNamespaceRules(name string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{name}, Verbs: []string{"get"}}}
}
