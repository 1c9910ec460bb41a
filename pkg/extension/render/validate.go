package render

import (
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/hooks"
)

// validate returns all errors that only the bundle's author can fix. csv is the bundle's CSV in its namespace.
func validate(in Input, csv *operatorsv1alpha1.ClusterServiceVersion) error {
	errs := []error{bundle.ValidateCSV(csv)}
	if len(validation.IsDNS1123Subdomain(in.Owner.Package)) > 0 {
		errs = append(errs, fmt.Errorf("package name %q is not valid", in.Owner.Package))
	}
	webhooks, apis := hooks.Validate(csv, in.Config.Deployment)
	return errors.Join(append(errs, webhooks, apis, validateCRDs(in.Bundle))...)
}

// validateCRDs returns an error for CustomResourceDefinitions that the CSV owns but the bundle does not contain, and for those
// that a webhook cannot convert.
func validateCRDs(b *bundle.Bundle) error {
	crds := map[string]*unstructured.Unstructured{}
	for _, obj := range b.Objects {
		if obj.GetKind() == "CustomResourceDefinition" {
			crds[obj.GetName()] = obj
		}
	}
	var missing []string
	reported := map[string]bool{}
	for _, d := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		if crds[d.Name] == nil && !reported[d.Name] {
			reported[d.Name] = true
			missing = append(missing, d.Name)
		}
	}
	var errs []error
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("the bundle does not contain all CustomResourceDefinitions that it owns; missing: %s", bundle.Named(missing)))
	}
	for i := range b.CSV.Spec.WebhookDefinitions {
		d := &b.CSV.Spec.WebhookDefinitions[i]
		for _, name := range d.ConversionCRDs {
			crd := crds[name]
			if crd == nil || d.Type != operatorsv1alpha1.ConversionWebhook {
				continue
			}
			if preserves, _, _ := unstructured.NestedBool(crd.Object, "spec", "preserveUnknownFields"); preserves {
				errs = append(errs, &hooks.PreservedError{CRD: name})
			}
		}
	}
	return errors.Join(errs...)
}
