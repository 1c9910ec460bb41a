package recorded

import (
	"regexp"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

var hash = regexp.MustCompile(`-([a-z2-7]{32}|[a-z2-7]{16})\b`)

// Mask replaces the hashes at the end of names with "#", including in recorded requests.
func Mask(text string) string { return hash.ReplaceAllString(text, "-#") }

func (s *Server) kind(obj runtime.Object) string {
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	if err != nil {
		return "?"
	}
	return gvk.Kind
}

func name(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

func resource(obj *unstructured.Unstructured) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	return plural.GroupResource()
}
