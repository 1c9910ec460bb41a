package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// contractError is an error whose text the OLM v0 contract defines.
type contractError string

func (e contractError) Error() string { return string(e) }

const (
	errRepeated  contractError = "CSV contains repeated WebhookDescription name"
	errAllGroups contractError = "webhook rules cannot include all groups"
	errOLMGroup  contractError = "webhook rules cannot include the OLM group"
	errAdmission contractError = "webhook rules cannot include MutatingWebhookConfiguration or ValidatingWebhookConfiguration resources"
)

// errIdentity refuses webhooks for the authentication and authorization API groups, which could read other users' tokens or
// change authorization decisions about these users. The contract does not define this error.
var errIdentity = errors.New("webhook rules cannot include the authentication and authorization API groups")

// ContractMessage returns the message that the contract defines for an error from Validate, or "" if it defines none.
// Tools compare the whole message, so it does not name the webhook; the text of the error does.
func ContractMessage(err error) string {
	if contract, ok := errors.AsType[contractError](err); ok {
		return string(contract)
	}
	return ""
}

const (
	// MaxDescriptions is the maximum number of webhook descriptions in one CSV. The largest CSV in the corpus has 87.
	MaxDescriptions = 500
	// maxErrors is the number of errors that are returned.
	maxErrors = 20
	// maxNameLength is the maximum length of a webhook's name. It leaves room for a hash in the name of the
	// configuration.
	maxNameLength = 200
)

// Validate returns all errors in a CSV's webhook descriptions that do not depend on who installs the CSV. Only the
// CSV's author can fix them (reason InvalidWebhookDescription).
func Validate(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	if err := CheckSize(csv); err != nil {
		return err
	}
	var errs []error
	seen := map[string]bool{}
	for i := range csv.Spec.WebhookDefinitions {
		d := &csv.Spec.WebhookDefinitions[i]
		if seen[d.GenerateName] {
			errs = append(errs, fmt.Errorf("%w: %q", errRepeated, message.Start(d.GenerateName)))
		}
		seen[d.GenerateName] = true
		for _, err := range validate(csv, d) {
			errs = append(errs, fmt.Errorf("%w: webhook %q", err, message.Start(d.GenerateName)))
		}
		if more := len(errs) - maxErrors; more > 0 {
			return errors.Join(append(errs[:maxErrors], fmt.Errorf("and %d or more other errors in webhook descriptions", more))...)
		}
	}
	return errors.Join(append(errs, validateOwners(csv))...)
}

func validate(csv *operatorsv1alpha1.ClusterServiceVersion, d *operatorsv1alpha1.WebhookDescription) []error {
	errs := validateServing(csv, d)
	switch d.Type {
	case operatorsv1alpha1.ValidatingAdmissionWebhook, operatorsv1alpha1.MutatingAdmissionWebhook:
		return append(errs, validateAdmission(d)...)
	case operatorsv1alpha1.ConversionWebhook:
		return append(errs, validateConversion(csv, d)...)
	}
	return append(errs, fmt.Errorf("webhook type %q is unknown", d.Type))
}

// validateServing validates the Deployment, ports and path that serve the webhook.
func validateServing(csv *operatorsv1alpha1.ClusterServiceVersion, d *operatorsv1alpha1.WebhookDescription) []error {
	var errs []error
	if deployment.SpecOf(csv, d.DeploymentName) == nil {
		errs = append(errs, fmt.Errorf("deployment %q is not part of the install strategy", d.DeploymentName))
	}
	if d.ContainerPort != 0 && len(validation.IsValidPortNum(int(d.ContainerPort))) > 0 {
		errs = append(errs, fmt.Errorf("containerPort %d is not a valid port", d.ContainerPort))
	}
	if t := Target(d); t != nil {
		if t.Type == intstr.Int && len(validation.IsValidPortNum(t.IntValue())) > 0 || t.Type == intstr.String && len(validation.IsValidPortName(t.StrVal)) > 0 {
			errs = append(errs, fmt.Errorf("targetPort %q is not a valid port", t.String()))
		}
	}
	if p := d.WebhookPath; p != nil && *p != "" && !strings.HasPrefix(*p, "/") {
		errs = append(errs, fmt.Errorf("webhookPath %q does not begin with /", *p))
	}
	return errs
}

func validateAdmission(d *operatorsv1alpha1.WebhookDescription) []error {
	var errs []error
	if len(validation.IsFullyQualifiedName(field.NewPath("generateName"), d.GenerateName)) > 0 || len(d.GenerateName) > maxNameLength {
		errs = append(errs, fmt.Errorf("generateName must have at least three dot-separated parts and at most %d characters", maxNameLength))
	}
	for _, rule := range d.Rules {
		errs = append(errs, validateRule(rule))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// refusedGroups maps the API groups that no webhook is allowed to intercept to errors. [Refused] lists further groups for bounded
// groups.
var refusedGroups = map[string]error{
	"*":                        errAllGroups,
	"operators.coreos.com":     errOLMGroup,
	"olm.operatorframework.io": errOLMGroup,
	"authentication.k8s.io":    errIdentity,
	"authorization.k8s.io":     errIdentity,
}

// isConfiguration reports whether a resource of a rule includes the configurations of webhooks.
func isConfiguration(resource string) bool {
	return covers(resource, "mutatingwebhookconfigurations") || covers(resource, "validatingwebhookconfigurations")
}

var operations = []admissionregistrationv1.OperationType{
	admissionregistrationv1.OperationAll, admissionregistrationv1.Create, admissionregistrationv1.Update,
	admissionregistrationv1.Delete, admissionregistrationv1.Connect,
}

func validateRule(rule admissionregistrationv1.RuleWithOperations) error {
	for _, group := range rule.APIGroups {
		if refused := refusedGroups[group]; refused != nil {
			return refused
		}
		if group == admissionregistrationv1.GroupName && slices.ContainsFunc(rule.Resources, isConfiguration) {
			return errAdmission
		}
	}
	if len(rule.APIGroups) == 0 || len(rule.APIVersions) == 0 || len(rule.Resources) == 0 || len(rule.Operations) == 0 {
		return errors.New("a rule needs apiGroups, apiVersions, resources and operations")
	}
	for _, o := range rule.Operations {
		if !slices.Contains(operations, o) {
			return fmt.Errorf("operation %q is unknown", o)
		}
	}
	return nil
}

func validateConversion(csv *operatorsv1alpha1.ClusterServiceVersion, d *operatorsv1alpha1.WebhookDescription) []error {
	var errs []error
	if !onlyAllNamespaces(csv) {
		errs = append(errs, errors.New("a conversion webhook needs a CSV that supports only the install mode AllNamespaces"))
	}
	if len(d.ConversionCRDs) == 0 {
		errs = append(errs, errors.New("a conversion webhook needs conversionCRDs"))
	}
	if len(d.AdmissionReviewVersions) == 0 {
		errs = append(errs, errors.New("a conversion webhook needs admissionReviewVersions"))
	}
	for _, name := range d.ConversionCRDs {
		owned := func(crd operatorsv1alpha1.CRDDescription) bool { return crd.Name == name }
		if !slices.ContainsFunc(csv.Spec.CustomResourceDefinitions.Owned, owned) {
			errs = append(errs, fmt.Errorf("CustomResourceDefinition %q is not owned by the CSV", name))
		}
	}
	return errs
}

func onlyAllNamespaces(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	var supported []operatorsv1alpha1.InstallModeType
	for _, mode := range csv.Spec.InstallModes {
		if mode.Supported {
			supported = append(supported, mode.Type)
		}
	}
	return slices.Equal(slices.Compact(supported), []operatorsv1alpha1.InstallModeType{operatorsv1alpha1.InstallModeTypeAllNamespaces})
}

// validateOwners returns an error if a CustomResourceDefinition has two conversion webhooks.
func validateOwners(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	by := map[string]bool{}
	for i := range csv.Spec.WebhookDefinitions {
		d := &csv.Spec.WebhookDefinitions[i]
		if d.Type != operatorsv1alpha1.ConversionWebhook {
			continue
		}
		for _, name := range d.ConversionCRDs {
			if by[name] {
				return fmt.Errorf("CustomResourceDefinition %q has two conversion webhooks", name)
			}
			by[name] = true
		}
	}
	return nil
}
