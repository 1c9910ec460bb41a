package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Verbs that satisfy the escalation check without the rules of the role: escalate on a role allows writing any rules
// into it, and bind on a role allows binding it to any subject.
const (
	verbEscalate = "escalate"
	verbBind     = "bind"
)

// verbImpersonate allows sending requests as another user.
const verbImpersonate = "impersonate"

// Grant describes what the API server requires of the writer of a role or a binding in addition to permission for the
// write itself: all granted rules, or a verb that makes them unnecessary.
type Grant struct {
	// Namespace is the scope in which the rules are required; ClusterScope for ClusterRoles and ClusterRoleBindings.
	Namespace string
	Rules     []rbacv1.PolicyRule
	// ClusterRole is the name of the ClusterRole to bind; "" for other bindings, and for roles.
	ClusterRole string
	// Alternative is the rule (escalate or bind on the role, by name) that satisfies the check without Rules. A rule
	// for escalate with a name does not apply to POST requests, which contain no name; server-side apply requests
	// contain one.
	Alternative rbacv1.PolicyRule
	// Unresolved is true if the binding's role does not exist. Then only Alternative is sufficient.
	Unresolved bool
	// Aggregates is true if the role or its live version aggregates other roles. Writing the role then requires all
	// permissions.
	Aggregates bool
	// Invalid is the reason why the API server rejects the object regardless of its writer, or nil.
	Invalid error
}

// RoleGrant returns the Grant for writing a Role or, without a namespace, a ClusterRole. live is its current state, or
// nil if it does not exist. Writing a role that has or had an aggregationRule requires all permissions
// (k8s.io/kubernetes, pkg/registry/rbac/clusterrole/policybased).
func RoleGrant(role, live *rbacv1.ClusterRole) Grant {
	resource := "clusterroles"
	if role.Namespace != ClusterScope {
		resource = "roles"
	}
	g := Grant{Namespace: role.Namespace, Rules: role.Rules, Alternative: named(resource, role.Name, verbEscalate)}
	if aggregates(role) || live != nil && aggregates(live) {
		g.Rules, g.Aggregates = append(everything(), role.Rules...), true
	}
	g.Invalid = ValidateRole(role)
	return g
}

func aggregates(role *rbacv1.ClusterRole) bool {
	return role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

func everything() []rbacv1.PolicyRule {
	all := []string{rbacv1.ResourceAll}
	return []rbacv1.PolicyRule{
		{APIGroups: all, Resources: all, Verbs: all},
		{NonResourceURLs: all, Verbs: all},
	}
}

// RoleRules returns the rules of the role that a binding in the namespace refers to, or a NotFound API error if the
// role does not exist. Listers.RulesOf implements it.
type RoleRules func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error)

// BindingGrant returns the Grant for writing a RoleBinding or, without a namespace, a ClusterRoleBinding. A role that
// does not exist is not an error; it sets Unresolved.
func BindingGrant(binding *rbacv1.ClusterRoleBinding, rulesOf RoleRules) (Grant, error) {
	ref := binding.RoleRef
	g := Grant{Namespace: binding.Namespace, Alternative: named("roles", ref.Name, verbBind)}
	if ref.Kind == kindClusterRole {
		g.Alternative, g.ClusterRole = named("clusterroles", ref.Name, verbBind), ref.Name
	}
	if g.Invalid = ValidateBinding(binding); g.Invalid != nil {
		return g, nil
	}
	var err error
	if g.Rules, err = rulesOf(ref, binding.Namespace); apierrors.IsNotFound(err) {
		g.Unresolved = true
		return g, nil
	}
	return g, err
}

func named(resource, name, verb string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: []string{verb},
	}
}

// Check predicts whether the API server lets a subject with these permissions in the grant's scope write the object.
func (g Grant) Check(granted Permissions) Verdict {
	if g.Invalid != nil {
		return Verdict{Invalid: g.Invalid}
	}
	alternative := []rbacv1.PolicyRule{g.Alternative}
	wanted := g.Rules
	if g.Unresolved {
		wanted = alternative
	}
	v := granted.Check(wanted)
	v.Unresolved = g.Unresolved
	if (v.Invalid != nil || g.Unresolved || len(v.Missing) > 0) && granted.Set().Covers(alternative) {
		v.Invalid, v.Via = nil, g.Alternative.Verbs[0]
	}
	return v
}
