package preflight

import (
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// Need lists the permissions that the account needs for one action of a plan.
type Need = rbac.Need

// NeedsOf returns the needs of a plan's steps, and those of their ClusterServiceVersions throughout their lifetime.
// They consist of the permissions for all requests and of those that roles and bindings grant. Permissions for
// requests are restricted to object names, even for create, because server-side apply sends the name. skip reports
// whether the account does not write a step's object: it is up to date, or another account writes it. The account then
// still needs permission for the conversion that a CustomResourceDefinition contains. The error is a *ConfigError if the needs
// of a ClusterServiceVersion cannot be determined because of the Subscription's config.
func NeedsOf(steps []step.Step, live rbac.RoleRules, skip func(step.Step) bool) ([]Need, error) {
	endpoints, err := collectEndpoints(steps, skip)
	if err != nil {
		return nil, err
	}
	roles := rolesOf(slices.Concat(steps, endpoints.grants), live)
	needs := conversionNeeds(steps, skip) // first, because Confirm asks a limited number of questions
	endpoints.omit(needs)
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

// conversionNeeds returns the needs for the conversions in CustomResourceDefinitions that the account does not write itself.
// They follow from what is written, so that no conversion is written without its need.
func conversionNeeds(steps []step.Step, skip func(step.Step) bool) []Need {
	var needs []Need
	for _, s := range steps {
		if n, ok := ConversionNeed(s); ok && skip(s) {
			needs = append(needs, n)
		}
	}
	return needs
}

// ConversionNeed returns the need for the conversion that a step's CustomResourceDefinition contains; ok is false if it
// contains none.
func ConversionNeed(s step.Step) (n Need, ok bool) {
	if !s.IsCRD() || !webhook.IsConverted(s.Object) {
		return Need{}, false
	}
	return hooks.Conversion(s.Object.GetName()), true
}

// stepNeeds returns the needs for the requests for one object: a read, unless the controller identity reads the
// object, and a server-side apply, which is authorized as patch and, if it creates the object, also as create with the
// object's name. Later versions and changed targets cause the same requests.
func stepNeeds(s step.Step) []Need {
	verbs := []string{"create", "patch"}
	if !s.IsCRD() {
		verbs = append(verbs, "get")
	}
	needs := []Need{hooks.Request(s.Object, "apply "+apply.Describe(s.Object), verbs...)}
	switch {
	case s.IsCSV():
		needs = append(needs, hooks.Request(s.Object, "annotate and set the finalizers of "+apply.Describe(s.Object), "patch"),
			hooks.Request(s.Object, "remove "+apply.Describe(s.Object)+" after another version has replaced it", "delete"))
	case removedByController(s):
		needs = append(needs, hooks.Removal(s.Object, s.Owner))
	}
	return needs
}

// HandOver returns the need for changing the owner references of an existing object, as each later version of an
// operator does. With the admission plugin OwnerReferencesPermissionEnforcement, this requires the permission to
// delete the object.
func HandOver(s step.Step) Need {
	return hooks.Request(s.Object, fmt.Sprintf("transfer the ownership of %s to ClusterServiceVersion %s/%s", apply.Describe(s.Object), s.Owner.Namespace, s.Owner.CSV), "delete")
}

// removedByController reports whether the csv controller, as the account, deletes the object when its CSV is deleted.
// It does so for roles and bindings outside the CSV's namespace, for which owner references do not work. Those to a
// ClusterExtension work everywhere.
func removedByController(s step.Step) bool {
	return s.Owner.Extension == "" && bundle.IsRBAC(s.Object) && s.Object.GetNamespace() != s.Owner.Namespace
}

// installNeeds returns the needs for the requests with which the csv controller applies a CSV's Deployments, and
// deletes those that are later removed from the CSV.
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
