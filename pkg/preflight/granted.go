package preflight

import (
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// roles resolves role references. For a role that the plan will write, it returns the planned rules, and for any other
// role, the live rules.
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

// needs returns the needs for writing a role or binding that result from the API server's escalation checks.
func (r roles) needs(obj *unstructured.Unstructured) []Need {
	if execute.IsRole(obj) {
		return r.ofRole(obj)
	}
	return r.ofBinding(obj)
}

// maxAdvice is the number of notes about the rules of one role.
const maxAdvice = 20

// ofRole returns the needs for writing a role: the account must have the role's rules.
func (r roles) ofRole(obj *unstructured.Unstructured) []Need {
	role := &rbacv1.ClusterRole{}
	if err := apply.Decode(obj, role); err != nil {
		return []Need{{Namespace: obj.GetNamespace(), Invalid: err, Object: apply.Describe(obj)}}
	}
	grant := rbac.RoleGrant(role, nil)
	if len(grant.Rules) == 0 && grant.Invalid == nil {
		return nil
	}
	cause := "grant the rules of " + apply.Describe(obj)
	if grant.Aggregates {
		cause = "write " + apply.Describe(obj) + ", which aggregates other ClusterRoles, so the API server requires all permissions"
	}
	need := granted(obj, grant, cause)
	advice := rbac.Lint(role.Namespace, role.Rules)
	for _, line := range advice[:min(len(advice), maxAdvice)] {
		need.Notes = append(need.Notes, apply.Describe(obj)+": "+line)
	}
	if more := len(advice) - maxAdvice; more > 0 {
		need.Notes = append(need.Notes, fmt.Sprintf("%s: and %d more notes about its rules", apply.Describe(obj), more))
	}
	return []Need{need}
}

// ofBinding returns the needs for writing a binding: in the scope of the binding, the account must have the role's
// rules or the verb bind on the role. If the role neither exists nor is planned, or if the API server will aggregate
// its rules, only the verb bind is sufficient.
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
	case r.isNotKept(binding, grant):
		need.Rules, need.ReadError = nil, errNotKept()
	case len(need.Rules) == 0:
		return nil
	}
	return []Need{need}
}

// bindOnly returns a need for only the verb bind. It is not marked as Granted, because any authorizer can allow this
// verb.
func bindOnly(n Need) Need {
	n.Rules, n.Alternatives, n.Granted = n.Alternatives, nil, false
	return n
}

// aggregates reports whether the binding refers to a planned ClusterRole with an aggregation rule.
func (r roles) aggregates(binding *rbacv1.ClusterRoleBinding) bool {
	role, ok := r.planned[keyOf(binding.RoleRef, binding.Namespace)]
	return ok && role.AggregationRule != nil
}

// errNotKept returns the error that only the API server knows whether the account may bind a ClusterRole.
func errNotKept() error {
	return errors.New("the ClusterRole has more rules than Remit evaluates, so only the API server knows whether the account has them")
}

// isNotKept reports whether the binding refers to a ClusterRole of the cluster with too many rules. It is no fault of the install: others
// may have added rules to it.
func (r roles) isNotKept(binding *rbacv1.ClusterRoleBinding, g rbac.Grant) bool {
	_, planned := r.planned[keyOf(binding.RoleRef, binding.Namespace)]
	return binding.RoleRef.Kind == "ClusterRole" && !planned && rbac.TooLarge(g.Rules)
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
