package preflight

import (
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

const rbacGroup = rbacv1.GroupName

// Need is what one thing that Remit will do for a plan requires of the account.
type Need struct {
	// Namespace is the scope in which the rules must be held; rbac.ClusterScope for the whole cluster.
	Namespace string
	Rules     []rbacv1.PolicyRule
	// Unless lists rules of which any one, held in the same scope, makes Rules unnecessary: escalate
	// and bind, as the API server honours them.
	Unless []rbacv1.PolicyRule
	// Cause says what for, as "create Role t1/x" or "ClusterServiceVersion x.v1 asks for it".
	Cause string
}

// NeedsOf lists what the steps of a plan need, and what its ClusterServiceVersions need afterwards.
// skip leaves out steps whose object is there already in the needed form, so that nothing is written.
func NeedsOf(steps []step.Step, live rbac.RoleRules, skip func(step.Step) bool) ([]Need, error) {
	planned := plannedRoles(steps)
	var needs []Need
	for _, s := range steps {
		if skip(s) {
			continue
		}
		needs = append(needs, ensureNeed(s))
		more, err := contentNeeds(s.Object, planned, live)
		if err != nil {
			return nil, err
		}
		needs = append(needs, more...)
	}
	return needs, nil
}

// ensureNeed is what is sent for one object: a read, unless self reads it, and a server-side apply,
// which is authorised as patch and, where it creates, as create with the name.
func ensureNeed(s step.Step) Need {
	kind, _ := bundle.KindOf(s.Object.GroupVersionKind().GroupKind())
	verbs := []string{"create", "patch"}
	if !s.IsCRD() {
		verbs = append(verbs, "get")
	}
	if removedByUs(s) {
		verbs = append(verbs, "delete")
	}
	return Need{
		Namespace: s.Object.GetNamespace(),
		Rules:     []rbacv1.PolicyRule{named(kind.Group, kind.Resource, s.Object.GetName(), verbs...)},
		Cause:     "apply " + apply.Describe(s.Object),
	}
}

// removedByUs says whether the csv controller removes the object with its CSV, as the account: roles and
// bindings outside the CSV's namespace, which no owner reference can reach.
func removedByUs(s step.Step) bool {
	return s.Object.GroupVersionKind().Group == rbacGroup && s.Object.GetNamespace() != s.Owner.Namespace
}

func named(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{name}, Verbs: verbs,
	}
}

func contentNeeds(obj *unstructured.Unstructured, planned map[roleKey][]rbacv1.PolicyRule, live rbac.RoleRules) ([]Need, error) {
	switch obj.GetKind() {
	case operatorsv1alpha1.ClusterServiceVersionKind:
		return csvNeeds(obj)
	case "Role", "ClusterRole":
		return roleNeeds(obj)
	case "RoleBinding", "ClusterRoleBinding":
		return bindingNeeds(obj, planned, live)
	}
	return nil, nil
}

// csvNeeds is what the csv controller does later for this CSV.
func csvNeeds(obj *unstructured.Unstructured) ([]Need, error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := decode(obj, csv); err != nil {
		return nil, err
	}
	var needs []Need
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		needs = append(needs, Need{
			Namespace: obj.GetNamespace(),
			Rules:     []rbacv1.PolicyRule{named("apps", "deployments", d.Name, "get", "create", "patch", "delete")},
			Cause:     fmt.Sprintf("install and remove Deployment %s/%s", obj.GetNamespace(), d.Name),
		})
	}
	return needs, nil
}

// roleNeeds is the API server's escalation check: who writes a role must hold its rules there.
func roleNeeds(obj *unstructured.Unstructured) ([]Need, error) {
	role := &rbacv1.ClusterRole{} // a Role has the same fields
	if err := decode(obj, role); err != nil {
		return nil, err
	}
	grant := rbac.RoleGrant(role, nil)
	if len(grant.Rules) == 0 {
		return nil, nil
	}
	return []Need{grantNeed(grant, "grant it through "+apply.Describe(obj))}, nil
}

// bindingNeeds is the API server's check on bindings: who binds a role must hold its rules in the
// binding's scope, or be allowed to bind it. A role that does not exist and is not planned can only
// be bound by the latter.
func bindingNeeds(obj *unstructured.Unstructured, planned map[roleKey][]rbacv1.PolicyRule, live rbac.RoleRules) ([]Need, error) {
	binding := &rbacv1.ClusterRoleBinding{} // a RoleBinding has the same fields
	if err := decode(obj, binding); err != nil {
		return nil, err
	}
	grant, err := rbac.BindingGrant(binding, func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
		roleNamespace := namespace
		if ref.Kind == "ClusterRole" {
			roleNamespace = rbac.ClusterScope
		}
		if rules, ok := planned[roleKey{ref.Kind, roleNamespace, ref.Name}]; ok {
			return rules, nil
		}
		return live(ref, namespace)
	})
	if err = errors.Join(err, grant.Invalid); err != nil {
		return nil, fmt.Errorf("%s: %w", apply.Describe(obj), err)
	}
	if grant.Unresolved {
		return []Need{grantNeed(grant, fmt.Sprintf("bind %s %q, which does not exist, through %s",
			binding.RoleRef.Kind, binding.RoleRef.Name, apply.Describe(obj)))}, nil
	}
	return []Need{grantNeed(grant, "grant it through "+apply.Describe(obj))}, nil
}

func grantNeed(g rbac.Grant, cause string) Need {
	return Need{Namespace: g.Namespace, Rules: g.Wanted(), Unless: []rbacv1.PolicyRule{g.Instead}, Cause: cause}
}

type roleKey struct{ kind, namespace, name string }

func plannedRoles(steps []step.Step) map[roleKey][]rbacv1.PolicyRule {
	out := map[roleKey][]rbacv1.PolicyRule{}
	for _, s := range steps {
		kind := s.Object.GetKind()
		if kind != "Role" && kind != "ClusterRole" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if decode(s.Object, role) == nil {
			out[roleKey{kind, s.Object.GetNamespace(), s.Object.GetName()}] = role.Rules
		}
	}
	return out
}

func decode(obj *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return fmt.Errorf("decode %s: %w", apply.Describe(obj), err)
	}
	return nil
}
