package preflight

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// Need is what one action of Remit for a plan requires of the account.
type Need struct {
	// Namespace is the scope of the rules; rbac.ClusterScope for the whole cluster.
	Namespace string
	Rules     []rbacv1.PolicyRule
	// Granted reports that an object grants the rules to other subjects; otherwise they are requests. For grants the
	// API server's escalation check considers only RBAC, whatever other authorizers allow (rule semantics, row 63).
	Granted bool
	// Alternatives are rules of which any single one, in the same scope, makes Rules unnecessary: escalate and bind,
	// as the API server honors them.
	Alternatives []rbacv1.PolicyRule
	// Identities reports that the permissions of the ServiceAccounts of Namespace are needed as well; see
	// [Identities].
	Identities bool
	// Hidden reports that readers of the report may not know the rules: only Cause describes them, and the grant does
	// not contain them.
	Hidden bool
	// Object is the object that the need is about, such as "Role t1/x"; Cause is the action, such as "apply Role
	// t1/x".
	Object string
	Cause  string
	// ReadError is the reason why Rules are not known: a role could not be read.
	ReadError error
	// Invalid is the reason why the API server refuses the request of any account.
	Invalid error
	// Notes explain rules of the object that grant less or more than they appear to.
	Notes []string
}

// NeedsOf lists what the steps of a plan need, and what their ClusterServiceVersions need throughout their lifetime:
// each request by object name, because server-side apply makes even creation nameable, and what roles and bindings
// grant. skip omits steps whose object is up to date, so that nothing is written.
func NeedsOf(steps []step.Step, live rbac.RoleRules, skip func(step.Step) bool) ([]Need, error) {
	endpoints, err := collectEndpoints(steps, skip)
	if err != nil {
		return nil, err
	}
	roles := rolesOf(slices.Concat(steps, endpoints.grants), live)
	var needs []Need
	for _, s := range steps {
		if skip(s) {
			continue
		}
		needs = append(needs, stepNeeds(s)...)
		switch {
		case s.IsCSV():
			more, err := installNeeds(s.Object)
			if err != nil {
				return nil, err
			}
			needs = append(needs, more...)
		case isRBAC(s.Object):
			needs = append(needs, roles.needs(s.Object)...)
		}
	}
	return endpoints.add(needs, roles), nil
}

// stepNeeds returns the requests for one object: a read, unless the controller identity reads it, and a server-side
// apply, which is authorized as patch and, if it creates, as create with the name. Later versions and other targets
// send the same requests.
func stepNeeds(s step.Step) []Need {
	verbs := []string{"create", "patch"}
	if !s.IsCRD() {
		verbs = append(verbs, "get")
	}
	needs := []Need{request(s.Object, "apply "+apply.Describe(s.Object), verbs...)}
	switch {
	case s.IsCSV():
		needs = append(needs, request(s.Object, "annotate and finalize "+apply.Describe(s.Object), "patch"),
			request(s.Object, "remove "+apply.Describe(s.Object)+" after another version has replaced it", "delete"))
	case removedByController(s):
		needs = append(needs, removal(s))
	}
	return needs
}

// removal is the need to delete an object that the csv controller removes with a ClusterServiceVersion.
func removal(s step.Step) Need {
	return request(s.Object, fmt.Sprintf("remove %s with ClusterServiceVersion %s/%s", apply.Describe(s.Object), s.Owner.Namespace, s.Owner.CSV), "delete")
}

// HandOver is the need to change the owners of an existing object, as each later version of an operator does. With the
// admission plugin OwnerReferencesPermissionEnforcement this requires the permission to delete the object.
func HandOver(s step.Step) Need {
	return request(s.Object, fmt.Sprintf("hand %s over to ClusterServiceVersion %s/%s", apply.Describe(s.Object), s.Owner.Namespace, s.Owner.CSV), "delete")
}

// removedByController reports whether the csv controller removes the object with its CSV, as the account: roles and
// bindings outside the CSV's namespace, which owner references cannot cover.
func removedByController(s step.Step) bool {
	return isRBAC(s.Object) && s.Object.GetNamespace() != s.Owner.Namespace
}

func isRBAC(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().Group == rbacv1.GroupName
}

// request is the need to send requests about an object.
func request(obj *unstructured.Unstructured, cause string, verbs ...string) Need {
	kind, _ := bundle.KindOf(obj.GroupVersionKind().GroupKind())
	return Need{
		Namespace: obj.GetNamespace(), Object: apply.Describe(obj), Cause: cause,
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{kind.Group}, Resources: []string{kind.Resource}, ResourceNames: []string{obj.GetName()}, Verbs: verbs,
		}},
	}
}

// installNeeds returns what the csv controller sends for a CSV in addition to the steps: its Deployments, and the
// removal of Deployments that are edited out of the CSV.
func installNeeds(obj *unstructured.Unstructured) ([]Need, error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := decode(obj, csv); err != nil {
		return nil, err
	}
	var needs []Need
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		rule := rbacv1.PolicyRule{
			APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{d.Name},
		}
		need := Need{Namespace: obj.GetNamespace(), Object: "Deployment " + obj.GetNamespace() + "/" + d.Name}
		for _, act := range []struct {
			cause string
			verbs []string
		}{
			{"apply " + need.Object, []string{"create", "patch", "get"}},
			{"remove " + need.Object + " if " + apply.Describe(obj) + " no longer contains it", []string{"delete"}},
		} {
			rule.Verbs = act.verbs
			need.Rules, need.Cause = []rbacv1.PolicyRule{rule}, act.cause
			needs = append(needs, need)
		}
	}
	return needs, nil
}

func decode(obj *unstructured.Unstructured, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into); err != nil {
		return fmt.Errorf("decode %s: %w", apply.Describe(obj), err)
	}
	return nil
}
