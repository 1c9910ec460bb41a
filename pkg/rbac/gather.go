package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxValues bounds the number of values (verbs, API groups, resources, names and URLs) in the roles that are gathered
// for one subject, because each value takes memory. The limit is sufficient for MaxAtoms rules of one atom each.
const MaxValues = 4 * MaxAtoms

// LimitError reports that the roles of a subject have more than MaxValues values, so its effective rules are unknown.
// It matches ErrUnreadable. ClusterRoles alone cause it only where all rules of a subject matter (UncoveredOf).
type LimitError struct {
	// User is the subject's user name or, if that is empty, the list of its groups.
	User string
	// Namespace is the scope; ClusterScope for the whole cluster.
	Namespace string
	// AllNamespaces is true if all scopes together exceed the limit, but no single one does.
	AllNamespaces bool
}

func (e *LimitError) Error() string {
	where := "in namespace " + e.Namespace
	switch {
	case e.AllNamespaces:
		where = "in all namespaces combined"
	case e.Namespace == ClusterScope:
		where = "cluster-wide"
	}
	return fmt.Sprintf("the roles bound to %s %s have more than the supported maximum of %d verbs, API groups, resources, names and URLs, or one of them has more than %d different rules", e.User, where, MaxValues, MaxRoleRules)
}

// Is makes a LimitError match ErrUnreadable.
func (e *LimitError) Is(target error) bool { return target == ErrUnreadable }

func limitError(s Subject, namespace string) *LimitError {
	user := s.User
	if user == "" {
		user = strings.Join(s.Groups, ", ")
	}
	return &LimitError{User: user, Namespace: namespace}
}

// everyBinding selects every binding.
func everyBinding(Binding) bool { return true }

// gather collects the rules that the subject gets from bindings for which counts returns true. It reads each role only
// once, because many bindings may refer to the same role. Roles that exceed the limit are an error, because whoever writes them may
// give tokens of the namespace's accounts away. ClusterRoles are shared, and others may add rules to them: those that exceed
// the limit are omitted, the largest first (docs/adr/0105).
func (l Listers) gather(s Subject, namespace string, counts func(Binding) bool) Permissions {
	g := gathering{listers: l, Permissions: Permissions{Namespace: namespace, bound: map[string]bool{}}}
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
		g.ReadErrors = append(g.ReadErrors, fmt.Errorf("list RoleBindings in namespace %q: %w", namespace, err))
	}
	for _, b := range bindings {
		if g.values <= MaxValues && applies(b.Subjects, s, namespace) && counts(b) {
			g.add(taken, &b.RoleRef, &b.ObjectMeta)
		}
	}
	return g.result(s)
}

// placedRole identifies the role that a binding refers to. For a Role, it includes the binding's namespace.
type placedRole struct {
	rbacv1.RoleRef
	namespace string
}

// gathering collects Permissions.
type gathering struct {
	listers Listers
	Permissions
	// values is the number of values in the rules of Roles.
	values int
	// parts are the rules of each role, in the order of the bindings.
	parts []part
}

// part contains the rules of one role.
type part struct {
	// clusterRole is the name of a ClusterRole; "" for a Role.
	clusterRole string
	rules       []rbacv1.PolicyRule
	values      int
}

// add collects the rules of a binding's role, once per role; taken records whether a role that was already looked up
// exists. Callers stop when the limit is exceeded, because changes to further roles cannot bring the total below it.
func (g *gathering) add(taken map[placedRole]bool, ref *rbacv1.RoleRef, binding *metav1.ObjectMeta) {
	role := placedRole{RoleRef: *ref}
	if ref.Kind == kindRole {
		role.namespace = binding.Namespace
	}
	exists, known := taken[role]
	if !known {
		rules, err := g.listers.RulesOf(*ref, binding.Namespace)
		exists = err == nil || !apierrors.IsNotFound(err) // IsNotFound is called last, because it allocates
		if err != nil && exists {
			g.ReadErrors = append(g.ReadErrors, err)
		}
		taken[role] = exists
		p := part{rules: rules, values: CountValues(rules)}
		if ref.Kind == kindClusterRole {
			p.clusterRole, g.bound[ref.Name] = ref.Name, exists
		} else if g.values += p.values; g.values > MaxValues {
			return
		}
		g.parts = append(g.parts, p)
	}
	if !exists {
		g.Dangling = append(g.Dangling, Dangling{Namespace: binding.Namespace, Binding: binding.Name, Role: *ref})
	}
}

// result returns the collected permissions. If Roles exceed the limit, it returns a LimitError and no rules, because an
// arbitrary part of them was collected.
func (g *gathering) result(s Subject) Permissions {
	if g.values > MaxValues {
		return Permissions{Namespace: g.Namespace, ReadErrors: []error{limitError(s, g.Namespace)}}
	}
	omitted := g.tooMany()
	for _, p := range g.parts {
		if omitted[p.clusterRole] {
			g.NotKept = append(g.NotKept, p.clusterRole)
			continue
		}
		g.Rules = append(g.Rules, p.rules...)
	}
	slices.Sort(g.NotKept)
	return g.Permissions
}

// tooMany returns the largest ClusterRoles, as many as have to be omitted.
func (g *gathering) tooMany() map[string]bool {
	total := 0 // without the Roles, whose authors must not be able to make permissions unknown that others gave the subject
	for _, p := range g.parts {
		if p.clusterRole != "" {
			total += p.values
		}
	}
	if total <= MaxValues {
		return nil
	}
	largest := slices.DeleteFunc(slices.Clone(g.parts), func(p part) bool { return p.clusterRole == "" })
	slices.SortFunc(largest, func(a, b part) int { return cmp.Or(b.values-a.values, strings.Compare(a.clusterRole, b.clusterRole)) })
	out := map[string]bool{}
	for i := 0; i < len(largest) && total > MaxValues; i++ {
		out[largest[i].clusterRole] = true
		total -= largest[i].values
	}
	return out
}

// CountValues returns the total length of all lists in the rules, or more than MaxValues if some of them are not kept.
func CountValues(rules []rbacv1.PolicyRule) int {
	n := 0
	for i := range rules {
		r := &rules[i]
		if isUnknown(r) {
			return MaxValues + 1
		}
		n += len(r.Verbs) + len(r.APIGroups) + len(r.Resources) + len(r.ResourceNames) + len(r.NonResourceURLs)
	}
	return n
}
