package build

import (
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// convert sets the conversion of each CustomResourceDefinition to the webhook that the CSV declares for it, so that a
// new CustomResourceDefinition is created with this conversion. Until the webhook responds, objects can be read and
// written only in the version in which they are stored. The alternative, a conversion that only changes the version,
// would silently lose fields that one version does not have. The caBundle is set when the certificate is issued.
//
// A bundle's CustomResourceDefinition never gets any other conversion webhook: the API server would call it for the
// objects of all users, and the writer of the CustomResourceDefinition may have more permissions than the account
// (ADR 0022). preflight.NeedsOf derives from the result which conversions the account must be allowed to set.
func convert(objects []*unstructured.Unstructured, conversions []webhook.Conversion) error {
	declared := map[string]webhook.Conversion{}
	for _, c := range conversions {
		declared[c.CRD] = c
	}
	for _, obj := range objects {
		if obj.GetKind() != "CustomResourceDefinition" {
			continue
		}
		annotations := obj.GetAnnotations()
		delete(annotations, names.AnnotationConversion) // only Remit may set this annotation, not a bundle
		obj.SetAnnotations(annotations)
		c, ok := declared[obj.GetName()]
		if !ok {
			dropWebhook(obj)
			continue
		}
		stanza, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.Stanza)
		if err == nil {
			err = unstructured.SetNestedMap(obj.Object, stanza, "spec", "conversion")
		}
		if err != nil {
			return fmt.Errorf("conversion of CustomResourceDefinition %q: %w", obj.GetName(), err)
		}
		for key, value := range c.Annotations {
			apply.Annotate(obj, key, value)
		}
	}
	return nil
}

// conversions returns the conversions that a CSV declares, without certificates. There are none if its webhooks are invalid,
// which the CSV's status reports.
func conversions(csv *operatorsv1alpha1.ClusterServiceVersion, owner ownerutil.Owner) []webhook.Conversion {
	if webhook.Validate(csv) != nil {
		return nil
	}
	placed := csv.DeepCopy()
	placed.Namespace = owner.Namespace
	return webhook.Conversions(webhook.Input{CSV: placed, Owner: owner})
}

// dropWebhook removes a conversion other than strategy None from the object, which leaves the conversion to its current
// manager or, if there is none, to the API server's default.
func dropWebhook(crd *unstructured.Unstructured) {
	if webhook.IsConverted(crd) {
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	}
}
