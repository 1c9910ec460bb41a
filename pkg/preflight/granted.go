package preflight

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// roles resolves role references: to roles of the plan, as they will be, and to other roles, as they are.
type roles struct {
	planned map[roleKey]*rbacv1.ClusterRole
	live    rbac.RoleRules
}

type roleKey struct{ kind, namespace, name string }

func rolesOf(steps []step.Step, live rbac.RoleRules) roles {
	r := roles{planned: map[roleKey]*rbacv1.ClusterRole{}, live: live}
	for _, s := range steps {
		if !execute.IsRole(s.Object) {
			continue
		}
		role := &rbacv1.ClusterRole{} // a Role has the same fields
		if apply.Decode(s.Object, role) == nil {
			r.planned[roleKey{s.Object.GetKind(), s.Object.GetNamespace(), s.Object.GetName()}] = role
		}
	}
	return r
}

// needs returns the needs that the API server's escalation checks impose on an RBAC object.
func (r roles) needs(obj *unstructured.Unstructured) []Need {
	if execute.IsRole(obj) {
		return r.ofRole(obj)
	}
	return r.ofBinding(obj)
}

// ofRole implements the escalation check: an account that writes a role must have its rules.
func (r roles) ofRole(obj *unstructured.Unstructured) []Need {
	role := &rbacv1.ClusterRole{}
	if err := apply.Decode(obj, role); err != nil {
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

// ofBinding implements the check on bindings: an account that binds a role must have the role's rules in the scope of
// the binding, or be allowed to bind it. A role that neither exists nor is planned, and a role whose rules only the
// API server will know, require the verb bind.
func (r roles) ofBinding(obj *unstructured.Unstructured) []Need {
	binding := &rbacv1.ClusterRoleBinding{} // a RoleBinding has the same fields
	if err := apply.Decode(obj, binding); err != nil {
		return []Need{{Namespace: obj.GetNamespace(), Invalid: err, Object: apply.Describe(obj)}}
	}
	grant, err := rbac.BindingGrant(binding, r.rules)
	role := fmt.Sprintf("%s %q", binding.RoleRef.Kind, binding.RoleRef.Name)
	need := granted(obj, grant, fmt.Sprintf("bind %s through %s", role, apply.Describe(obj)))
	switch {
	case grant.Invalid != nil:
	case err != nil:
		need.ReadError = err
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

// bindOnly turns a need into one for the verb bind, which is a request to the authorizers and not a grant.
func bindOnly(n Need) Need {
	n.Rules, n.Alternatives, n.Granted = n.Alternatives, nil, false
	return n
}

// aggregates reports whether the binding refers to a planned ClusterRole whose rules the API server aggregates.
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
		Namespace: g.Namespace, Rules: g.Rules, Alternatives: []rbacv1.PolicyRule{g.Alternative}, Granted: true,
		Object: apply.Describe(obj), Cause: cause, Invalid: g.Invalid,
	}
}
