package execute

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// PlannedKinds returns the kinds that the plan's own CustomResourceDefinitions define.
func PlannedKinds(steps []step.Step) map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, s := range steps {
		if s.IsCRD() {
			kinds[bundle.DefinedKind(s.Object)] = true
		}
	}
	return kinds
}

// UnservedError reports, with the contract's message, that the cluster does not serve a step's kind.
type UnservedError struct {
	GVK  schema.GroupVersionKind
	Name string
}

func (e *UnservedError) Error() string {
	return fmt.Sprintf("api-server resource not found installing %s %s: GroupVersionKind %s not found on the cluster. "+
		"This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ "+
		"for more information", e.GVK.Kind, e.Name, e.GVK)
}

// Serves reports whether an existing CustomResourceDefinition serves everything that the bundle's does: the same kind
// in the same scope, and each of its served versions (docs/adr/0001).
func Serves(live, want *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"spec", "group"}, {"spec", "scope"}, {"spec", "names", "kind"}, {"spec", "names", "plural"}} {
		a, _, _ := unstructured.NestedString(live.Object, path...)
		b, _, _ := unstructured.NestedString(want.Object, path...)
		if a != b {
			return false
		}
	}
	served := func(version map[string]any) bool { return version["served"] == true }
	return versionsOf(live, served).IsSuperset(versionsOf(want, served))
}

// IsServed is like Serves, for a live CustomResourceDefinition that was read with a typed client. It returns false if
// live is nil.
func IsServed(live *apiextensionsv1.CustomResourceDefinition, s step.Step) bool {
	if live == nil {
		return false
	}
	obj, err := apply.Object(live)
	return err == nil && Serves(obj, s.Object)
}

// ServedByOther reports whether a CustomResourceDefinition of another owner already serves everything that the step's
// does, so that nothing needs to be written.
func ServedByOther(live *apiextensionsv1.CustomResourceDefinition, s step.Step) bool {
	return live != nil && !s.Owner.Owns(live) && IsServed(live, s)
}

// losesVersion returns the contract's error if a CustomResourceDefinition has stored objects in a version that
// the new one does not have. When a user has migrated the objects and removed the version from status.storedVersions,
// the plan resumes.
func losesVersion(live, want *unstructured.Unstructured) error {
	known := versionsOf(want, func(map[string]any) bool { return true })
	stored, _, _ := unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	for _, version := range stored {
		if !known.Has(version) {
			return fmt.Errorf("risk of data loss updating %q: new CRD removes version %s that is listed as a stored version on the existing CRD",
				live.GetName(), version)
		}
	}
	return nil
}

// versionsOf returns the names of a CustomResourceDefinition's versions for which counts returns true.
func versionsOf(crd *unstructured.Unstructured, counts func(version map[string]any) bool) sets.Set[string] {
	out := sets.Set[string]{}
	versions, _, _ := unstructured.NestedFieldNoCopy(crd.Object, "spec", "versions")
	list, _ := versions.([]any)
	for _, v := range list {
		if version, ok := v.(map[string]any); ok && counts(version) {
			name, _ := version["name"].(string)
			out.Insert(name)
		}
	}
	return out
}
