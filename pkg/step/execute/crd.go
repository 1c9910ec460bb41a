package execute

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/step"
)

// plannedKinds are the kinds that the plan's own CustomResourceDefinitions make.
func plannedKinds(steps []step.Step) map[schema.GroupKind]bool {
	kinds := map[schema.GroupKind]bool{}
	for _, s := range steps {
		if !s.IsCRD() {
			continue
		}
		group, _, _ := unstructured.NestedString(s.Object.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(s.Object.Object, "spec", "names", "kind")
		kinds[schema.GroupKind{Group: group, Kind: kind}] = true
	}
	return kinds
}

// wordUnserved words, as the contract does, that the cluster does not serve a step's kind. Where the
// plan itself brings the kind, its object does not exist yet, and that is no error.
func wordUnserved(s step.Step, planned map[schema.GroupKind]bool, err error) error {
	gvk := s.Object.GroupVersionKind()
	if !meta.IsNoMatchError(err) {
		return err
	}
	if planned[gvk.GroupKind()] {
		return nil
	}
	return fmt.Errorf("api-server resource not found installing %s %s: GroupVersionKind %s not found on the cluster. "+
		"This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ "+
		"for more information: %w", gvk.Kind, s.Object.GetName(), gvk, err)
}

// Serves says whether an existing CustomResourceDefinition serves what a bundle's needs: the same
// kind in the same scope, and each version that the bundle's serves (security model, D1).
func Serves(live, want *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"spec", "group"}, {"spec", "scope"}, {"spec", "names", "kind"}, {"spec", "names", "plural"}} {
		a, _, _ := unstructured.NestedString(live.Object, path...)
		b, _, _ := unstructured.NestedString(want.Object, path...)
		if a != b {
			return false
		}
	}
	has := servedVersions(live)
	for version := range servedVersions(want) {
		if !has[version] {
			return false
		}
	}
	return true
}

func servedVersions(crd *unstructured.Unstructured) map[string]bool {
	served := map[string]bool{}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok {
			continue
		}
		name, _, _ := unstructured.NestedString(version, "name")
		if yes, _, _ := unstructured.NestedBool(version, "served"); yes {
			served[name] = true
		}
	}
	return served
}
