package rbac

import (
	"errors"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// Binding is a RoleBinding or a ClusterRoleBinding.
type Binding Object

// Object returns a role or a binding, or a NotFound API error. For other kinds, it returns nil without an error.
func (l Listers) Object(kind, namespace, name string) (Binding, error) {
	switch kind {
	case kindRole:
		return l.Roles.Roles(namespace).Get(name)
	case kindRoleBinding:
		return l.RoleBindings.RoleBindings(namespace).Get(name)
	case kindClusterRole:
		return l.ClusterRoles.Get(name)
	case kindClusterRoleBinding:
		return l.ClusterRoleBindings.Get(name)
	}
	return nil, nil
}

// Scoped contains rules that apply in one scope.
type Scoped struct {
	// Namespace is the scope; ClusterScope for the whole cluster.
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// Uncovered returns, for every scope in which bindings grant permissions to subject, the effective rules of subject
// that the subject "by" does not have.
func (l Listers) Uncovered(subject, by Subject) ([]Scoped, error) {
	return l.UncoveredOf(subject, by, everyBinding)
}

// UncoveredOf is like Uncovered, but considers only the bindings of subject for which counts returns true. It ignores
// groups that both subjects belong to, because these give both the same rules. The error is a *LimitError if the rules
// of subject in one scope, or all returned rules, exceed MaxValues, except for those of ClusterRoles that "by" has, too.
func (l Listers) UncoveredOf(subject, by Subject, counts func(Binding) bool) ([]Scoped, error) {
	subject.Groups = slices.DeleteFunc(slices.Clone(subject.Groups), func(g string) bool { return slices.Contains(by.Groups, g) })
	scopes, err := l.Scopes(subject)
	if err != nil {
		return nil, err
	}
	var out []Scoped
	all := 0
	for _, scope := range scopes {
		has := l.gather(subject, scope, counts)
		if err := errors.Join(has.ReadErrors...); err != nil {
			return nil, err
		}
		if len(has.Rules) == 0 && len(has.NotKept) == 0 {
			continue
		}
		may := l.LowerBound(by, scope)
		if err := errors.Join(may.ReadErrors...); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(has.NotKept, func(role string) bool { return !l.Includes(may, role) }) {
			return nil, limitError(subject, scope)
		}
		missing := may.Set().Missing(has.Rules)
		if all += CountValues(missing); all > MaxValues {
			return nil, &LimitError{User: subject.User, AllNamespaces: true}
		}
		if len(missing) > 0 {
			out = append(out, Scoped{Namespace: scope, Rules: missing})
		}
	}
	return out, nil
}

// maxBindings bounds the number of bindings that UncoveredBindings examines.
const maxBindings = 10_000

// UncoveredBindings returns the bindings of subject for which counts returns true and that grant rules that the subject
// "by" does not have, sorted by name. It omits bindings whose roles cannot be read.
func (l Listers) UncoveredBindings(subject, by Subject, counts func(Binding) bool) []Binding {
	known := map[placedRole]bool{}
	granted := NewRecent(func(scope string) Permissions { return l.LowerBound(by, scope) })
	exceeds := func(b Binding) bool {
		role := placedRole{RoleRefOf(b), b.GetNamespace()}
		if is, ok := known[role]; ok {
			return is
		}
		may := granted.Get(role.namespace)
		rules, err := l.RulesOf(role.RoleRef, role.namespace)
		isIncluded := role.Kind == kindClusterRole && l.Includes(may, role.Name)
		known[role] = err == nil && !isIncluded && (TooLarge(rules) || len(may.Set().Missing(rules)) > 0)
		return known[role]
	}
	found := map[string]Binding{}
	looked := 0
	_, _ = l.UncoveredOf(subject, by, func(b Binding) bool {
		if !counts(b) {
			return false
		}
		if looked++; looked <= maxBindings && exceeds(b) {
			found[apply.Describe(b)] = b
		}
		return true
	})
	var out []Binding
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[name])
	}
	return out
}
