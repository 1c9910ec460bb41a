package build

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// convert has a CustomResourceDefinition converted, from the start, by the webhook that the CSV declares for
// it. Until that answers, nobody can read or write in another version than an object is stored in: the
// alternative, a conversion that renames the version and loses the fields which only one has, would do it
// in silence. Whom the webhook is trusted by comes with its certificate.
func convert(objects []*unstructured.Unstructured, csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner) error {
	declared := map[string]webhook.Conversion{}
	if webhook.Validate(csv) == nil {
		placed := csv.DeepCopy()
		placed.Namespace = owner.Namespace
		for _, c := range webhook.Conversions(webhook.Input{CSV: placed, Owner: owner}) {
			declared[c.CRD] = c
		}
	}
	for _, obj := range objects {
		if obj.GetKind() != "CustomResourceDefinition" {
			continue
		}
		annotations := obj.GetAnnotations()
		delete(annotations, names.AnnotationConversion) // who set it was not Remit
		c, ok := declared[obj.GetName()]
		if !ok {
			obj.SetAnnotations(annotations)
			continue
		}
		stanza, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.Stanza)
		if err == nil {
			err = unstructured.SetNestedMap(obj.Object, stanza, "spec", "conversion")
		}
		if err != nil {
			return fmt.Errorf("conversion of CustomResourceDefinition %q: %w", obj.GetName(), err)
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[names.AnnotationConversion] = c.Annotations[names.AnnotationConversion]
		obj.SetAnnotations(annotations)
	}
	return nil
}
