package execute

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// keepConversion copies a conversion that Remit configured from the live CustomResourceDefinition to desired. Stored
// objects must stay readable, and only the installed version's webhook responds until the next version's webhook does.
// The csv controller then changes the conversion. If Remit removed the webhook together with an earlier install,
// keepConversion omits the conversion, because applying it would conflict with the removal (see restoreConversion). A
// conversion in the bundle's own manifest is not replaced.
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
	apply.Annotate(desired, names.AnnotationConversion, mark)
}

// restoreConversion restores the webhook that a plan declares if Remit removed the webhook of the live
// CustomResourceDefinition together with an earlier install. The operator must not run before that: it would read
// objects without the fields that only other versions have, and lose these fields with its next update. The patch uses
// the field manager that removed the webhook, because applying a different strategy would conflict with the removal.
// restoreConversion returns the live object, which is unchanged if there is nothing to restore.
func (e *Executor) restoreConversion(ctx context.Context, s State) (*unstructured.Unstructured, error) {
	if !restoresConversion(s) {
		return s.Live, nil
	}
	declared, _, _ := unstructured.NestedMap(s.Step.Object.Object, "spec", "conversion")
	mark := s.Step.Object.GetAnnotations()[names.AnnotationConversion]
	patch, err := webhook.ConversionPatch(s.Live, declared, map[string]string{names.AnnotationConversion: mark})
	if err != nil {
		return nil, err
	}
	live := s.Live.DeepCopy()
	if err := e.writer(s).Patch(ctx, live, patch, client.FieldOwner(names.FieldManager)); err != nil {
		return nil, fmt.Errorf("restore the conversion of CustomResourceDefinition %q: %w", s.Live.GetName(), err)
	}
	return live, nil
}

// restoresConversion reports whether restoreConversion changes the live CustomResourceDefinition.
func restoresConversion(s State) bool {
	return s.Live != nil && s.Step.Object.GetAnnotations()[names.AnnotationConversion] != "" && s.Step.Owner.Owns(s.Live) &&
		converter(s.Live) == names.ConversionReset && s.Live.GetAnnotations()[names.AnnotationConversion] == names.ConversionReset
}

// converter returns the value that AnnotationConversion has if the conversion of a CustomResourceDefinition is
// unchanged since Remit set it.
func converter(crd *unstructured.Unstructured) string {
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	if strategy == string(apiextensionsv1.NoneConverter) {
		return names.ConversionReset
	}
	namespace, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "service", "namespace")
	name, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "service", "name")
	return namespace + "/" + name
}
