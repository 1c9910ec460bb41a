package execute

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// keepConversion leaves a CustomResourceDefinition converted as it is, where Remit has set that up: the
// webhook that answers now is the one of the version before, and stored objects have to stay readable until
// that of the next one answers. The csv controller changes it then. A bundle that ships a conversion of its
// own has that.
func keepConversion(desired, live *unstructured.Unstructured) {
	if live == nil {
		return
	}
	mark := live.GetAnnotations()[names.AnnotationConversion]
	namespace, _, _ := unstructured.NestedString(live.Object, "spec", "conversion", "webhook", "clientConfig", "service", "namespace")
	name, _, _ := unstructured.NestedString(live.Object, "spec", "conversion", "webhook", "clientConfig", "service", "name")
	if mark == "" || mark != namespace+"/"+name {
		return
	}
	_, ships, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "conversion")
	if ships && desired.GetAnnotations()[names.AnnotationConversion] == "" {
		return
	}
	spec, ok := desired.Object["spec"].(map[string]any)
	conversion, _, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "conversion")
	if !ok {
		return
	}
	spec["conversion"] = runtime.DeepCopyJSONValue(conversion)
	annotations := desired.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnotationConversion] = mark
	desired.SetAnnotations(annotations)
}
