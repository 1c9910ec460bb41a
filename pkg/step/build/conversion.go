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

// convert sets the conversion of a CustomResourceDefinition, from the start, to the webhook that the CSV declares for
// it. Until the webhook answers, objects can only be read and written in the version in which they are stored. The
// alternative, a conversion that only changes the version, would silently lose fields that one version does not have.
// The caBundle is set together with the certificate.
//
// A bundle's CustomResourceDefinition never gets another conversion webhook: the API server would call it for the
// objects of all users, and the writer of the CustomResourceDefinition may have more permissions than the account
// (ADR 0022).
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
		delete(annotations, names.AnnotationConversion) // it was not set by Remit
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
		apply.Annotate(obj, names.AnnotationConversion, c.Annotations[names.AnnotationConversion])
	}
	return nil
}

// dropWebhook leaves the conversion to its current manager or to the API server's default.
func dropWebhook(crd *unstructured.Unstructured) {
	stanza, found, err := unstructured.NestedMap(crd.Object, "spec", "conversion")
	if none := err == nil && len(stanza) == 1 && stanza["strategy"] == "None"; found && !none || err != nil {
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	}
}
