package serving

import (
	"fmt"
	"maps"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/remit-olm/remit/pkg/install/cert"
)

// Annotations that make certificate tools inject their CA into a configuration.
const (
	InjectCAFrom       = "cert-manager.io/inject-ca-from"
	InjectCAFromSecret = "cert-manager.io/inject-ca-from-secret" //nolint:gosec // the name of an annotation
	InjectCABundle     = "service.beta.openshift.io/inject-cabundle"
	// servingCert on a Service requests a certificate from the service-ca operator.
	servingCert = "service.beta.openshift.io/serving-cert-secret-name"
)

// Tool describes a certificate tool in the cluster that issues certificates instead of Remit. The tool writes the
// Secret and the caBundle of every object that has one; Remit overwrites neither.
type Tool struct {
	// Annotations make the tool inject the caBundle. They are copied to all objects with a caBundle.
	Annotations map[string]string
	// issuing is the namespace in which cert-manager issues a certificate for each Deployment; "" if the certificates are not
	// part of the install.
	issuing string
}

// CertManager returns the tool of an install that contains a self-signed Issuer and a Certificate of cert-manager for each
// Deployment.
func CertManager(namespace string) *Tool { return &Tool{issuing: namespace} }

// ServiceCA returns the tool of an install whose certificates the service-ca operator issues.
func ServiceCA() *Tool { return &Tool{Annotations: map[string]string{InjectCABundle: "true"}} }

// isPart reports whether the install contains Certificates of cert-manager.
func (t *Tool) isPart() bool { return t != nil && t.issuing != "" }

// ToolOf returns the tool that is selected by the annotations of the Subscription's config or else by those of the
// CSV, or nil if neither selects one. An annotation must refer to a certificate or Secret in the operator's own
// namespace, because the tool may have permissions that the account does not have.
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

// Configuration returns the annotations for objects with the caBundle of a Deployment, or nil if t is nil.
func (t *Tool) Configuration(deployment string) map[string]string {
	switch {
	case t == nil:
		return nil
	case t.issuing != "":
		return map[string]string{InjectCAFrom: t.issuing + "/" + cert.SecretName(deployment)}
	}
	return maps.Clone(t.Annotations)
}

// service returns the annotations for a Deployment's Service that request its certificate, or nil if the tool does not
// use such annotations.
func (t *Tool) service(deployment string) map[string]string {
	if t == nil || t.Annotations[InjectCABundle] == "" {
		return nil
	}
	return map[string]string{servingCert: cert.SecretName(deployment)}
}
