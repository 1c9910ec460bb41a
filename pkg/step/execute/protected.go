package execute

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// isProtected says whether a CustomResourceDefinition is of a group that belongs to Kubernetes or to
// this API: only the default account may write there (security model, D1).
func isProtected(crd *unstructured.Unstructured) bool {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	if group == "operators.coreos.com" || group == "packages.operators.coreos.com" {
		return true
	}
	return slices.ContainsFunc([]string{"k8s.io", "kubernetes.io"}, func(g string) bool {
		return group == g || strings.HasSuffix(group, "."+g)
	})
}
