package preflight

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// Need is what one action of Remit for a plan requires of the account.
type Need = rbac.Need

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
		case bundle.IsRBAC(s.Object):
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
	needs := []Need{hooks.Request(s.Object, "apply "+apply.Describe(s.Object), verbs...)}
	switch {
	case s.IsCSV():
		needs = append(needs, hooks.Request(s.Object, "annotate and finalize "+apply.Describe(s.Object), "patch"),
			hooks.Request(s.Object, "remove "+apply.Describe(s.Object)+" after another version has replaced it", "delete"))
	case removedByController(s):
		needs = append(needs, hooks.Removal(s.Object, s.Owner))
	}
	return needs
}

// HandOver is the need to change the owners of an existing object, as each later version of an operator does. With the
// admission plugin OwnerReferencesPermissionEnforcement this requires the permission to delete the object.
func HandOver(s step.Step) Need {
	return hooks.Request(s.Object, fmt.Sprintf("hand %s over to ClusterServiceVersion %s/%s", apply.Describe(s.Object), s.Owner.Namespace, s.Owner.CSV), "delete")
}

// removedByController reports whether the csv controller removes the object with its CSV, as the account: roles and
// bindings outside the CSV's namespace, which owner references cannot cover.
func removedByController(s step.Step) bool {
	return bundle.IsRBAC(s.Object) && s.Object.GetNamespace() != s.Owner.Namespace
}

// installNeeds returns what the csv controller sends for a CSV in addition to the steps: its Deployments, and the
// removal of Deployments that are edited out of the CSV.
func installNeeds(obj *unstructured.Unstructured) ([]Need, error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := apply.Decode(obj, csv); err != nil {
		return nil, err
	}
	var needs []Need
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		deployment := apply.Reference(appsv1.SchemeGroupVersion.WithKind("Deployment"), obj.GetNamespace(), d.Name)
		needs = append(needs, hooks.Request(deployment, "apply "+apply.Describe(deployment), "create", "patch", "get"),
			hooks.Request(deployment, "remove "+apply.Describe(deployment)+" if "+apply.Describe(obj)+" no longer contains it", "delete"))
	}
	return needs, nil
}
