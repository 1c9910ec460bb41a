package execute

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// keepConversion keeps the conversion of a live CustomResourceDefinition that Remit configured: the webhook of the installed
// version answers, and stored objects must stay readable until that of the next version does. The csv controller
// changes it then. The same applies where Remit removed the webhook with the last version. A bundle's own conversion
// is not replaced.
func keepConversion(desired, live *unstructured.Unstructured) {
	if live == nil {
		return
	}
	mark := live.GetAnnotations()[names.AnnotationConversion]
	if mark == "" || mark != converter(live) {
		return
	}
	_, ships, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "conversion")
	if ships && desired.GetAnnotations()[names.AnnotationConversion] == "" {
		return
	}
	spec, ok := desired.Object["spec"].(map[string]any)
	if !ok {
		return
	}
	if mark == names.ConversionReset {
		delete(spec, "conversion")
	} else {
		conversion, _, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "conversion")
		spec["conversion"] = runtime.DeepCopyJSONValue(conversion)
	}
	annotations := desired.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnotationConversion] = mark
	desired.SetAnnotations(annotations)
}

// converter returns the value of AnnotationConversion that a CustomResourceDefinition has while its conversion is as
// Remit left it.
func converter(crd *unstructured.Unstructured) string {
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	if strategy == string(apiextensionsv1.NoneConverter) {
		return names.ConversionReset
	}
	namespace, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "service", "namespace")
	name, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "service", "name")
	return namespace + "/" + name
}
