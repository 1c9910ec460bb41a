package render

import (
	"errors"
	"fmt"
	"slices"

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
	find := func(name string) *unstructured.Unstructured {
		if i := slices.IndexFunc(b.Objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "CustomResourceDefinition" && o.GetName() == name
		}); i >= 0 {
			return b.Objects[i]
		}
		return nil
	}
	var missing []string
	for _, d := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		if find(d.Name) == nil && !slices.Contains(missing, d.Name) {
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
			crd := find(name)
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
