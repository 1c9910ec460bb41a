package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The verbs that stand for the rules of a role: who may escalate a role may write any rules into it,
// who may bind a role may give it to anybody.
const (
	verbEscalate = "escalate"
	verbBind     = "bind"
)

// verbImpersonate lets its holder send requests as somebody else.
const verbImpersonate = "impersonate"

// Grant is what the API server asks of who writes a role or a binding, beside the write itself: to hold
// the rules that it grants, or a verb that stands for them.
type Grant struct {
	// Namespace is where the rules must be held; ClusterScope for ClusterRoles and ClusterRoleBindings.
	Namespace string
	Rules     []rbacv1.PolicyRule
	// Alternative is the rule, escalate or bind on the role by name, that will do for Rules. A request which
	// creates by POST has no name yet, so that escalate by name does not help it; server-side apply has.
	Alternative rbacv1.PolicyRule
	// Unresolved says that the binding's role does not exist: only Alternative will do.
	Unresolved bool
	// Aggregates says that the role gathers the rules of others, or did so: whoever writes it must hold everything.
	Aggregates bool
	// Invalid says why the API server refuses the rules whoever writes them.
	Invalid error
}

// RoleGrant is the Grant of writing a Role, or without a namespace a ClusterRole, over the one that is
// there, if any. Who writes a ClusterRole with an aggregationRule, or takes it away, must hold everything
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

// RoleRules resolves the role that a binding in the namespace names. The error is a NotFound API error
// where there is none. Listers.RulesOf is one.
type RoleRules func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error)

// BindingGrant is the Grant of writing a RoleBinding, or without a namespace a ClusterRoleBinding.
func BindingGrant(binding *rbacv1.ClusterRoleBinding, rulesOf RoleRules) (Grant, error) {
	ref := binding.RoleRef
	g := Grant{Namespace: binding.Namespace, Alternative: named("roles", ref.Name, verbBind)}
	if ref.Kind == kindClusterRole {
		g.Alternative = named("clusterroles", ref.Name, verbBind)
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

// Wanted are the rules to ask for: those of the grant, or the verb bind where nothing else will do.
func (g Grant) Wanted() []rbacv1.PolicyRule {
	if g.Unresolved {
		return []rbacv1.PolicyRule{g.Alternative}
	}
	return g.Rules
}

// Check says whether who holds this in the grant's scope may write it.
func (g Grant) Check(held Permissions) Verdict {
	if g.Invalid != nil {
		return Verdict{Invalid: g.Invalid}
	}
	v := held.Check(g.Wanted())
	v.Unresolved = g.Unresolved
	if (v.Invalid != nil || g.Unresolved || len(v.Missing) > 0) && held.Check([]rbacv1.PolicyRule{g.Alternative}).Covered() {
		v.Invalid, v.Via = nil, g.Alternative.Verbs[0]
	}
	return v
}
