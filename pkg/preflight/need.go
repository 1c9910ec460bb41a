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

// Need is what one thing that Remit will do for a plan requires of the account.
type Need struct {
	// Namespace is the scope in which the rules must be held; rbac.ClusterScope for the whole cluster.
	Namespace string
	Rules     []rbacv1.PolicyRule
	// Granted says that the rules are not what is sent but what an object gives to others. Of those the
	// API server's escalation check counts only what RBAC gives to the account, whatever other
	// authorizers allow (rule semantics, row 63).
	Granted bool
	// Unless lists rules of which any one, held in the same scope, makes Rules unnecessary: escalate
	// and bind, as the API server honours them.
	Unless []rbacv1.PolicyRule
	// Identities says that what the ServiceAccounts of Namespace hold is needed besides: [Identities] knows it.
	Identities bool
	// Elsewhere says that whoever reads the report may not know the rules: what is missing of them is told by Cause alone, and not granted
	// by what there is to paste.
	Elsewhere bool
	// Object is the one concerned, as "Role t1/x"; Cause says what is to be done, as "apply Role t1/x".
	Object string
	Cause  string
	// Unread says why Rules are not known: a role could not be read.
	Unread error
	// Invalid says why the API server will refuse this whoever asks.
	Invalid error
	// Notes are what rules of the object give less or more than they seem to say.
	Notes []string
}

// NeedsOf lists what the steps of a plan need, and what their ClusterServiceVersions need as long as they
// live: each request by its name, as server-side apply makes even creation nameable, and what roles and
// bindings hand on. skip leaves out steps whose object is there already in the needed form, so that
// nothing is written.
func NeedsOf(steps []step.Step, live rbac.RoleRules, skip func(step.Step) bool) ([]Need, error) {
	called, err := calls(steps, skip)
	if err != nil {
		return nil, err
	}
	roles := rolesOf(slices.Concat(steps, called.grants), live)
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
	return called.add(needs, roles), nil
}

// stepNeeds is what is sent for one object: a read, unless self reads it, and a server-side apply, which
// is authorised as patch and, where it creates, as create with the name. Later versions and other targets
// send the same again.
func stepNeeds(s step.Step) []Need {
	verbs := []string{"create", "patch"}
	if !s.IsCRD() {
		verbs = append(verbs, "get")
	}
	needs := []Need{request(s.Object, "apply "+apply.Describe(s.Object), verbs...)}
	switch {
	case s.IsCSV():
		needs = append(needs, request(s.Object, "annotate and finalize "+apply.Describe(s.Object), "patch"),
			request(s.Object, "remove "+apply.Describe(s.Object)+" where another version has replaced it", "delete"))
	case removedByUs(s):
		needs = append(needs, removal(s))
	}
	return needs
}

// removal is for what the csv controller removes with a ClusterServiceVersion.
func removal(s step.Step) Need {
	return request(s.Object, fmt.Sprintf("remove %s with ClusterServiceVersion %s/%s", apply.Describe(s.Object), s.Owner.Namespace, s.Owner.CSV), "delete")
}

// HandOver is what some clusters ask of who changes the owners of an object that exists, as each later
// version of an operator does: to be allowed to delete it (the admission plugin
// OwnerReferencesPermissionEnforcement).
func HandOver(s step.Step) Need {
	return request(s.Object, fmt.Sprintf("hand %s over to ClusterServiceVersion %s/%s", apply.Describe(s.Object), s.Owner.Namespace, s.Owner.CSV), "delete")
}

// removedByUs says whether the csv controller removes the object with its CSV, as the account: roles and
// bindings outside the CSV's namespace, which no owner reference can reach.
func removedByUs(s step.Step) bool {
	return isRBAC(s.Object) && s.Object.GetNamespace() != s.Owner.Namespace
}

func isRBAC(obj *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().Group == rbacv1.GroupName
}

// request is the need to send something about an object.
func request(obj *unstructured.Unstructured, cause string, verbs ...string) Need {
	kind, _ := bundle.KindOf(obj.GroupVersionKind().GroupKind())
	return Need{
		Namespace: obj.GetNamespace(), Object: apply.Describe(obj), Cause: cause,
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{kind.Group}, Resources: []string{kind.Resource}, ResourceNames: []string{obj.GetName()}, Verbs: verbs,
		}},
	}
}

// installNeeds is what the csv controller sends for a CSV, beside what concerns steps: its Deployments,
// and the removal of one that an edit takes out of the CSV.
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
			{"remove " + need.Object + " where " + apply.Describe(obj) + " no longer has it", []string{"delete"}},
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
