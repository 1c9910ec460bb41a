package serving

import (
	"fmt"
	"maps"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/cert"
)

// Annotations by which certificate tools are told to put their authority into a configuration.
const (
	InjectCAFrom       = "cert-manager.io/inject-ca-from"
	InjectCAFromSecret = "cert-manager.io/inject-ca-from-secret"
	InjectCABundle     = "service.beta.openshift.io/inject-cabundle"
	// servingCert on a Service asks the service-ca operator for a certificate.
	servingCert = "service.beta.openshift.io/serving-cert-secret-name"
)

// Tool is a certificate tool of the cluster that issues what Remit else would: the Secret with the
// certificate, and the caBundle of every configuration. Remit then neither issues nor overwrites.
type Tool struct {
	// Annotations are copied to all that carries a caBundle.
	Annotations map[string]string
}

// ToolOf finds the tool that a Subscription's config names, or else the CSV; nil where neither does. The
// certificate must be of the operator's own namespace: a tool has rights that the account may not have.
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
				return nil, fmt.Errorf("annotation %s: %q is not of namespace %q", key, value, csv.Namespace)
			}
		}
		return &Tool{Annotations: annotations}, nil
	}
	return nil, nil
}

// Configuration are the annotations of what carries a caBundle.
func (t *Tool) Configuration() map[string]string {
	if t == nil {
		return nil
	}
	return maps.Clone(t.Annotations)
}

// service asks for the certificate of a Deployment, where the tool does so by the Service.
func (t *Tool) service(deployment string) map[string]string {
	if t == nil || t.Annotations[InjectCABundle] == "" {
		return nil
	}
	return map[string]string{servingCert: cert.SecretName(deployment)}
}
