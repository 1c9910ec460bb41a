package rbac

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxValues bounds how many values (verbs, API groups, resources, names and URLs) the roles have that are gathered for one
// subject. It is what MaxAtoms combinations take, each written as a rule of its own. Memory is taken for each value.
const MaxValues = 4 * MaxAtoms

// LimitError says that the roles of a subject have more than MaxValues values: what it holds is not known. It is an
// ErrUnreadable.
type LimitError struct {
	// User is the subject's, or its groups.
	User string
	// Namespace is the scope; ClusterScope for the whole cluster.
	Namespace string
	// AllNamespaces is set where it is all scopes together.
	AllNamespaces bool
}

func (e *LimitError) Error() string {
	where := "in namespace " + e.Namespace
	switch {
	case e.AllNamespaces:
		where = "in all namespaces together"
	case e.Namespace == ClusterScope:
		where = "in the whole cluster"
	}
	return fmt.Sprintf("the roles that are bound to %s %s have more than %d verbs, API groups, resources, names and URLs, and no more are looked at", e.User, where, MaxValues)
}

// Is makes it an ErrUnreadable.
func (e *LimitError) Is(target error) bool { return target == ErrUnreadable }

func limitError(s Subject, namespace string) *LimitError {
	user := s.User
	if user == "" {
		user = strings.Join(s.Groups, ", ")
	}
	return &LimitError{User: user, Namespace: namespace}
}

// everyBinding counts all bindings.
func everyBinding(Binding) bool { return true }

// gather takes the rules of the roles to which bindings that count bind the subject, each role once: there may be very many
// bindings of one role.
func (l Listers) gather(s Subject, namespace string, counts func(Binding) bool) Permissions {
	g := gathering{listers: l, Permissions: Permissions{Namespace: namespace}}
	taken := map[placedRole]bool{}
	clusterBindings, err := clusterRoleBindingsFor(l.ClusterRoleBindings, s)
	if err != nil {
		g.ReadErrors = append(g.ReadErrors, fmt.Errorf("list ClusterRoleBindings: %w", err))
	}
	for _, b := range clusterBindings {
		if g.values <= MaxValues && applies(b.Subjects, s, ClusterScope) && counts(b) {
			g.add(taken, &b.RoleRef, &b.ObjectMeta)
		}
	}
	if namespace == ClusterScope {
		return g.result(s)
	}
	bindings, err := roleBindingsFor(l.RoleBindings, namespace, s)
	if err != nil {
		g.ReadErrors = append(g.ReadErrors, fmt.Errorf("list RoleBindings of namespace %q: %w", namespace, err))
	}
	for _, b := range bindings {
		if g.values <= MaxValues && applies(b.Subjects, s, namespace) && counts(b) {
			g.add(taken, &b.RoleRef, &b.ObjectMeta)
		}
	}
	return g.result(s)
}

// placedRole is a role as a binding finds it: a Role in the namespace of the binding, a ClusterRole anywhere.
type placedRole struct {
	rbacv1.RoleRef
	namespace string
}

// gathering is a Permissions on the way.
type gathering struct {
	listers Listers
	Permissions
	// values is how many the taken rules have.
	values int
}

// add takes the rules of a binding's role, if that is not taken yet; the value in taken says whether there is one. What is not
// looked at any more has nobody to wake: it is too much without.
func (g *gathering) add(taken map[placedRole]bool, ref *rbacv1.RoleRef, binding *metav1.ObjectMeta) {
	role := placedRole{RoleRef: *ref}
	if ref.Kind == kindRole {
		role.namespace = binding.Namespace
	}
	exists, known := taken[role]
	if !known {
		rules, err := g.listers.RulesOf(*ref, binding.Namespace)
		exists = err == nil || !apierrors.IsNotFound(err) // which allocates
		if err != nil && exists {
			g.ReadErrors = append(g.ReadErrors, err)
		}
		taken[role] = exists
		if g.values += CountValues(rules); g.values > MaxValues {
			return
		}
		g.Rules = append(g.Rules, rules...)
	}
	if !exists {
		g.Dangling = append(g.Dangling, Dangling{Namespace: binding.Namespace, Binding: binding.Name, Role: *ref})
	}
}

// result has no rules where they are too many: which of them were taken is chance.
func (g *gathering) result(s Subject) Permissions {
	if g.values > MaxValues {
		return Permissions{Namespace: g.Namespace, ReadErrors: []error{limitError(s, g.Namespace)}}
	}
	return g.Permissions
}

// CountValues is that of all lists of rules together.
func CountValues(rules []rbacv1.PolicyRule) int {
	n := 0
	for i := range rules {
		r := &rules[i]
		n += len(r.Verbs) + len(r.APIGroups) + len(r.Resources) + len(r.ResourceNames) + len(r.NonResourceURLs)
	}
	return n
}
