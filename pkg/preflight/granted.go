package preflight

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// roles resolves what a plan's bindings refer to: roles of the plan itself, as they will be, and others
// as they are.
type roles struct {
	planned map[roleKey]*rbacv1.ClusterRole
	live    rbac.RoleRules
}

type roleKey struct{ kind, namespace, name string }

func rolesOf(steps []step.Step, live rbac.RoleRules) roles {
	r := roles{planned: map[roleKey]*rbacv1.ClusterRole{}, live: live}
	for _, s := range steps {
		if !isRole(s.Object) {
			continue
		}
		role := &rbacv1.ClusterRole{} // a Role has the same fields
		if decode(s.Object, role) == nil {
			r.planned[roleKey{s.Object.GetKind(), s.Object.GetNamespace(), s.Object.GetName()}] = role
		}
	}
	return r
}

func isRole(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Role" || obj.GetKind() == "ClusterRole"
}

// needs are the API server's checks on what an RBAC object hands on.
func (r roles) needs(obj *unstructured.Unstructured) []Need {
	if isRole(obj) {
		return r.ofRole(obj)
	}
	return r.ofBinding(obj)
}

// ofRole is the escalation check: who writes a role must hold its rules there.
func (r roles) ofRole(obj *unstructured.Unstructured) []Need {
	role := &rbacv1.ClusterRole{}
	if err := decode(obj, role); err != nil {
		return []Need{{Namespace: obj.GetNamespace(), Invalid: err, Object: apply.Describe(obj)}}
	}
	grant := rbac.RoleGrant(role, nil)
	if len(grant.Rules) == 0 && grant.Invalid == nil {
		return nil
	}
	cause := "grant what " + apply.Describe(obj) + " contains"
	if grant.Aggregates {
		cause = "write " + apply.Describe(obj) + ", which aggregates other ClusterRoles, so that the API server asks for everything"
	}
	need := granted(obj, grant, cause)
	for _, line := range rbac.Lint(role.Namespace, role.Rules) {
		need.Notes = append(need.Notes, apply.Describe(obj)+": "+line)
	}
	return []Need{need}
}

// ofBinding is the check on bindings: who binds a role must hold its rules in the binding's scope, or be
// allowed to bind it. A role that does not exist and is not planned, or whose content only the
// API server will know, can only be bound by the latter.
func (r roles) ofBinding(obj *unstructured.Unstructured) []Need {
	binding := &rbacv1.ClusterRoleBinding{} // a RoleBinding has the same fields
	if err := decode(obj, binding); err != nil {
		return []Need{{Namespace: obj.GetNamespace(), Invalid: err, Object: apply.Describe(obj)}}
	}
	grant, err := rbac.BindingGrant(binding, r.rules)
	role := fmt.Sprintf("%s %q", binding.RoleRef.Kind, binding.RoleRef.Name)
	need := granted(obj, grant, fmt.Sprintf("bind %s through %s", role, apply.Describe(obj)))
	switch {
	case grant.Invalid != nil:
	case err != nil:
		need.Unread = err
	case grant.Unresolved:
		need = bindOnly(need)
		need.Cause = fmt.Sprintf("bind %s, which does not exist, through %s", role, apply.Describe(obj))
	case r.aggregates(binding):
		need = bindOnly(need)
	case len(need.Rules) == 0:
		return nil
	}
	return []Need{need}
}

// bindOnly makes the verb bind what is asked for. That is a request to the authorizers, not a grant.
func bindOnly(n Need) Need {
	n.Rules, n.Unless, n.Granted = n.Unless, nil, false
	return n
}

// aggregates says whether the binding's role is one of the plan whose rules the API server gathers.
func (r roles) aggregates(binding *rbacv1.ClusterRoleBinding) bool {
	role, ok := r.planned[keyOf(binding.RoleRef, binding.Namespace)]
	return ok && role.AggregationRule != nil
}

func keyOf(ref rbacv1.RoleRef, namespace string) roleKey {
	if ref.Kind == "ClusterRole" {
		namespace = rbac.ClusterScope
	}
	return roleKey{ref.Kind, namespace, ref.Name}
}

func (r roles) rules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if role, ok := r.planned[keyOf(ref, namespace)]; ok {
		return role.Rules, nil
	}
	return r.live(ref, namespace)
}

func granted(obj *unstructured.Unstructured, g rbac.Grant, cause string) Need {
	return Need{
		Namespace: g.Namespace, Rules: g.Rules, Unless: []rbacv1.PolicyRule{g.Alternative}, Granted: true,
		Object: apply.Describe(obj), Cause: cause, Invalid: g.Invalid,
	}
}
