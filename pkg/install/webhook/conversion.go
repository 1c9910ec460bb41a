package webhook

import (
	"encoding/json"
	"fmt"
	"maps"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// Conversion is the conversion webhook of one CustomResourceDefinition.
type Conversion struct {
	// CRD is the name of the CustomResourceDefinition.
	CRD string
	// Deployment is the name of the Deployment that serves the webhook.
	Deployment string
	Stanza     apiextensionsv1.CustomResourceConversion
	// Annotations record the Service that performs the conversion and, if a certificate tool is used, make the tool
	// inject the caBundle.
	Annotations map[string]string
}

// Conversions returns the CSV's conversion webhooks, one per CustomResourceDefinition, in the order of the CSV.
func Conversions(in Input) []Conversion {
	var out []Conversion
	for i := range in.CSV.Spec.WebhookDefinitions {
		d := &in.CSV.Spec.WebhookDefinitions[i]
		if d.Type != operatorsv1alpha1.ConversionWebhook {
			continue
		}
		for _, name := range d.ConversionCRDs {
			out = append(out, Conversion{CRD: name, Deployment: d.DeploymentName, Stanza: in.stanza(d), Annotations: in.conversionAnnotations(d)})
		}
	}
	return out
}

func (in Input) conversionAnnotations(d *operatorsv1alpha1.WebhookDescription) map[string]string {
	out := map[string]string{}
	maps.Copy(out, in.annotations(d.DeploymentName))
	out[names.AnnotationConversion] = in.CSV.Namespace + "/" + cert.ServiceName(d.DeploymentName)
	return out
}

func (in Input) stanza(d *operatorsv1alpha1.WebhookDescription) apiextensionsv1.CustomResourceConversion {
	return apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{
					Namespace: in.CSV.Namespace, Name: cert.ServiceName(d.DeploymentName), Path: ptr.To(path(d)), Port: ptr.To(port(d)),
				},
				CABundle: in.trust(d.DeploymentName),
			},
			ConversionReviewVersions: d.AdmissionReviewVersions,
		},
	}
}

// InPlace reports whether the CustomResourceDefinition has this conversion. It ignores the caBundle if c has none,
// because then another field manager sets it.
func (c Conversion) InPlace(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for k, v := range c.Annotations {
		if crd.Annotations[k] != v {
			return false
		}
	}
	if crd.Spec.Conversion == nil {
		return false
	}
	have := crd.Spec.Conversion.DeepCopy()
	if len(c.Stanza.Webhook.ClientConfig.CABundle) == 0 && have.Webhook != nil && have.Webhook.ClientConfig != nil {
		have.Webhook.ClientConfig.CABundle = nil
	}
	return equality.Semantic.DeepEqual(*have, c.Stanza)
}

// IsConverted reports whether a CustomResourceDefinition that is to be written contains a conversion other than strategy None.
// It decides which conversions of a bundle are removed, and for which ones the account needs permission.
func IsConverted(crd *unstructured.Unstructured) bool {
	stanza, found, err := unstructured.NestedMap(crd.Object, "spec", "conversion")
	none := err == nil && len(stanza) == 1 && stanza["strategy"] == string(apiextensionsv1.NoneConverter)
	return found && !none || err != nil
}

// CalledAt returns the Service that converts a CustomResourceDefinition; ok is false if there is none.
func CalledAt(crd *apiextensionsv1.CustomResourceDefinition) (service types.NamespacedName, ok bool) {
	c := crd.Spec.Conversion
	if c == nil || c.Strategy != apiextensionsv1.WebhookConverter || c.Webhook == nil || c.Webhook.ClientConfig == nil || c.Webhook.ClientConfig.Service == nil {
		return types.NamespacedName{}, false
	}
	s := c.Webhook.ClientConfig.Service
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, true
}

// SetByRemit reports whether Remit set the Service that converts a CustomResourceDefinition and the Service is in the
// namespace.
func SetByRemit(crd *apiextensionsv1.CustomResourceDefinition, namespace string) bool {
	service, ok := CalledAt(crd)
	return ok && service.Namespace == namespace && crd.Annotations[names.AnnotationConversion] == service.String()
}

// Bundle returns the caBundle of a CustomResourceDefinition's conversion webhook, or nil if no Service converts it.
func Bundle(crd *apiextensionsv1.CustomResourceDefinition) []byte {
	if _, ok := CalledAt(crd); !ok {
		return nil
	}
	return crd.Spec.Conversion.Webhook.ClientConfig.CABundle
}

// Patch returns a patch that changes only the conversion and the annotations. The API server rejects the patch if the
// CustomResourceDefinition has changed since crd was read. A merge patch is used instead of server-side apply, because
// the InstallPlan that created the CustomResourceDefinition manages the other fields.
func (c Conversion) Patch(crd *apiextensionsv1.CustomResourceDefinition) (client.Patch, error) {
	stanza, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.Stanza.DeepCopy())
	if err == nil { // a merge patch keeps fields that it omits, and a webhook must not have both a Service and a URL
		err = unstructured.SetNestedField(stanza, nil, "webhook", "clientConfig", "url")
	}
	if err != nil {
		return nil, fmt.Errorf("encode the conversion of CustomResourceDefinition %q: %w", crd.Name, err)
	}
	return ConversionPatch(crd, stanza, c.Annotations)
}

// Retrust returns a patch that changes only the caBundle of a CustomResourceDefinition's conversion webhook.
func Retrust(crd *apiextensionsv1.CustomResourceDefinition, trust []byte) (client.Patch, error) {
	return ConversionPatch(crd, map[string]any{"webhook": map[string]any{"clientConfig": map[string]any{"caBundle": trust}}}, nil)
}

// Reset returns a patch that removes the webhook from a CustomResourceDefinition. The patch's field manager then owns
// the strategy, so applying a different strategy would cause a conflict; an annotation informs the next install that
// Remit reset the conversion.
func Reset(crd *apiextensionsv1.CustomResourceDefinition) (client.Patch, error) {
	annotations := map[string]string{names.AnnotationConversion: names.ConversionReset}
	return ConversionPatch(crd, map[string]any{"strategy": apiextensionsv1.NoneConverter, "webhook": nil}, annotations)
}

// ConversionPatch returns a merge patch for the conversion and annotations of a CustomResourceDefinition. The API
// server rejects the patch if the CustomResourceDefinition has changed since crd was read.
func ConversionPatch(crd metav1.Object, stanza any, annotations map[string]string) (client.Patch, error) {
	metadata := map[string]any{"uid": crd.GetUID(), "resourceVersion": crd.GetResourceVersion()}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	raw, err := json.Marshal(map[string]any{
		"metadata": metadata,
		"spec":     map[string]any{"conversion": stanza},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the conversion of CustomResourceDefinition %q: %w", crd.GetName(), err)
	}
	return client.RawPatch(types.MergePatchType, raw), nil
}
