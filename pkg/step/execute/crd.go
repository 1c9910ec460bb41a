package execute

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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

// Established says whether the API server serves the CustomResourceDefinition.
func Established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if ok && condition["type"] == "Established" {
			return condition["status"] == "True"
		}
	}
	return false
}
