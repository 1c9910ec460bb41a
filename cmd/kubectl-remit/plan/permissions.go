package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// grantee is a subject of the plan's bindings, with everything that the bindings grant to it.
type grantee struct {
	subject string
	scopes  []scope
}

// scope contains the permissions that are granted in some namespaces, or cluster-wide (rbac.ClusterScope).
type scope struct {
	namespaces []string
	// rules contain no redundant permissions.
	rules []rbacv1.PolicyRule
	// roles are the names of bound roles that the plan does not contain.
	roles []string
}

// permissions describes what the plan's roles and bindings grant.
type permissions struct {
	grantees []grantee
	// unbound contains the roles of the plan that no binding of the plan refers to. The subject of each entry is the
	// role's name in the format of apply.Describe.
	unbound []grantee
}

type roleKey struct{ kind, namespace, name string }

// permissionsOf returns the permissions that the plan's bindings grant, by subject. For bound roles that are not in the
// plan, it returns only the names.
func permissionsOf(steps []step.Step) (permissions, error) {
	roles, bound := map[roleKey]*rbacv1.ClusterRole{}, map[roleKey]bool{}
	var bindings []*rbacv1.ClusterRoleBinding // RoleBindings and Roles have the same fields
	for _, s := range steps {
		if !bundle.IsRBAC(s.Object) {
			continue
		}
		role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
		var into any = role
		isBinding := strings.HasSuffix(s.Object.GetKind(), "Binding")
		if isBinding {
			into = binding
		}
		if err := apply.Decode(s.Object, into); err != nil {
			return permissions{}, err
		}
		if isBinding {
			bindings = append(bindings, binding)
		} else {
			roles[roleKey{s.Object.GetKind(), s.Object.GetNamespace(), s.Object.GetName()}] = role
		}
	}
	given := map[string]map[string]*scope{}
	for _, b := range bindings {
		key := roleKey{b.RoleRef.Kind, b.Namespace, b.RoleRef.Name}
		if b.RoleRef.Kind == "ClusterRole" {
			key.namespace = rbac.ClusterScope
		}
		bound[key] = true
		for _, subject := range b.Subjects {
			add(given, describe(subject, b.Namespace), b.Namespace, key, roles[key])
		}
	}
	var out permissions
	for _, subject := range slices.Sorted(maps.Keys(given)) {
		out.grantees = append(out.grantees, grantee{subject, folded(given[subject])})
	}
	for _, key := range slices.SortedFunc(maps.Keys(roles), compareRoles) {
		if !bound[key] {
			alone := map[string]map[string]*scope{}
			add(alone, "", key.namespace, key, roles[key])
			out.unbound = append(out.unbound, grantee{key.String(), folded(alone[""])})
		}
	}
	return out, nil
}

func compareRoles(a, b roleKey) int { return cmp.Compare(a.String(), b.String()) }

// String returns the role in the format of apply.Describe.
func (k roleKey) String() string {
	if k.namespace == rbac.ClusterScope {
		return k.kind + " " + k.name
	}
	return k.kind + " " + k.namespace + "/" + k.name
}

func add(given map[string]map[string]*scope, subject, namespace string, key roleKey, role *rbacv1.ClusterRole) {
	if given[subject] == nil {
		given[subject] = map[string]*scope{}
	}
	if given[subject][namespace] == nil {
		given[subject][namespace] = &scope{}
	}
	s := given[subject][namespace]
	switch {
	case role == nil:
		s.roles = append(s.roles, key.String()+", which is not part of the plan")
	case role.AggregationRule != nil:
		s.roles = append(s.roles, key.String()+", which aggregates the rules of other ClusterRoles")
	default:
		s.rules = append(s.rules, role.Rules...)
	}
}

// describe returns the kind and the name of a subject. A ServiceAccount without a namespace is in the given namespace,
// which is the binding's namespace.
func describe(s rbacv1.Subject, namespace string) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return s.Kind + " " + cmp.Or(s.Namespace, namespace) + "/" + s.Name
	}
	return s.Kind + " " + s.Name
}

// folded merges namespaces with the same permissions into one scope. The cluster scope is never merged and comes first.
func folded(by map[string]*scope) []scope {
	var out []scope
	at := map[string]int{}
	for _, namespace := range slices.Sorted(maps.Keys(by)) {
		s := scope{rules: rbac.Minimal(by[namespace].rules), roles: by[namespace].roles}
		slices.Sort(s.roles)
		s.roles = slices.Compact(s.roles)
		key := fmt.Sprint(namespace == rbac.ClusterScope, s.lines())
		i, known := at[key]
		if !known {
			i = len(out)
			at[key] = i
			out = append(out, s)
		}
		out[i].namespaces = append(out[i].namespaces, namespace)
	}
	return out
}

// lines returns one line for each rule and each role of the scope.
func (s scope) lines() []string {
	var out []string
	for _, r := range s.rules {
		out = append(out, rbac.Line(r))
	}
	for _, role := range s.roles {
		out = append(out, "all rules of "+role)
	}
	return out
}

// where describes the namespaces of a scope.
func (s scope) where() string {
	switch {
	case s.namespaces[0] == rbac.ClusterScope:
		return "cluster-wide"
	case len(s.namespaces) == 1:
		return "in namespace " + s.namespaces[0]
	}
	return "in each of the namespaces " + strings.Join(s.namespaces, ", ")
}

// warnings lists the subjects whose permissions amount to cluster-admin.
func (p permissions) warnings() []string {
	var out []string
	for _, g := range p.grantees {
		for _, s := range g.scopes {
			if s.namespaces[0] != rbac.ClusterScope {
				continue
			}
			powers := rbac.Powers(s.rules)
			for _, role := range s.roles {
				if strings.HasPrefix(role, "ClusterRole "+rbac.ClusterAdmin+",") {
					powers = append(powers, "ClusterRole "+rbac.ClusterAdmin)
				}
			}
			if len(powers) > 0 {
				out = append(out, fmt.Sprintf("%s gets permissions that amount to cluster-admin: %s.", g.subject, strings.Join(powers, ", ")))
			}
		}
	}
	return out
}
