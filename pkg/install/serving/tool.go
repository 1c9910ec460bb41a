package serving

import (
	"fmt"
	"maps"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/cert"
)

// Annotations that ask certificate tools to inject their CA into a configuration.
const (
	InjectCAFrom       = "cert-manager.io/inject-ca-from"
	InjectCAFromSecret = "cert-manager.io/inject-ca-from-secret" //nolint:gosec // the name of an annotation
	InjectCABundle     = "service.beta.openshift.io/inject-cabundle"
	// servingCert on a Service requests a certificate from the service-ca operator.
	servingCert = "service.beta.openshift.io/serving-cert-secret-name"
)

// Tool is a certificate tool of the cluster that replaces Remit's certificates: it issues the Secret and the caBundle
// of every configuration. Remit then neither issues nor overwrites them.
type Tool struct {
	// Annotations are copied to all objects with a caBundle.
	Annotations map[string]string
}

// ToolOf returns the tool that a Subscription's config or else the CSV selects; nil if neither does. The certificate
// must be in the operator's own namespace, because a tool may have permissions that the account does not.
func ToolOf(csv *operatorsv1alpha1.ClusterServiceVersion, config *operatorsv1alpha1.SubscriptionConfig) (*Tool, error) {
	sources := []map[string]string{csv.Annotations, csv.Spec.Annotations}
	if config != nil {
		sources = append([]map[string]string{config.Annotations}, sources...)
	}
	for _, source := range sources {
		annotations := map[string]string{}
		for _, key := range []string{InjectCAFrom, InjectCAFromSecret, InjectCABundle} {
			if value := source[key]; value != "" && value != "false" {
				annotations[key] = value
			}
		}
		if len(annotations) == 0 {
			continue
		}
		for _, key := range []string{InjectCAFrom, InjectCAFromSecret} {
			if value, ok := annotations[key]; ok && !strings.HasPrefix(value, csv.Namespace+"/") {
				return nil, fmt.Errorf("annotation %s: %q is not in namespace %q", key, value, csv.Namespace)
			}
		}
		return &Tool{Annotations: annotations}, nil
	}
	return nil, nil
}

// Configuration returns the annotations for objects with a caBundle.
func (t *Tool) Configuration() map[string]string {
	if t == nil {
		return nil
	}
	return maps.Clone(t.Annotations)
}

// service returns the annotations that request a Deployment's certificate, if the tool works through the Service.
func (t *Tool) service(deployment string) map[string]string {
	if t == nil || t.Annotations[InjectCABundle] == "" {
		return nil
	}
	return map[string]string{servingCert: cert.SecretName(deployment)}
}
