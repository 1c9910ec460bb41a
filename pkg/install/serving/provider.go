package serving

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Provider issues the certificates of webhooks and APIs that ClusterExtensions install. The zero value is ProviderRemit. It
// implements pflag.Value.
type Provider string

// Providers.
const (
	// ProviderRemit means that Remit issues and rotates the certificates.
	ProviderRemit Provider = "remit"
	// ProviderCertManager means that each install contains a self-signed Issuer and a Certificate of cert-manager.
	ProviderCertManager Provider = "cert-manager"
	// ProviderServiceCA means that the service-ca operator of OpenShift issues the certificates of annotated Services.
	ProviderServiceCA Provider = "openshift-service-ca"
)

// Providers returns all Providers.
func Providers() []string {
	return []string{string(ProviderRemit), string(ProviderCertManager), string(ProviderServiceCA)}
}

// Tool returns the tool that issues certificates in a namespace, or nil if Remit issues them.
func (p Provider) Tool(namespace string) *Tool {
	switch p {
	case ProviderCertManager:
		return CertManager(namespace)
	case ProviderServiceCA:
		return ServiceCA()
	}
	return nil
}

// Kinds returns the kinds that the provider defines and that installs contain.
func (p Provider) Kinds() []schema.GroupVersionKind {
	if p != ProviderCertManager {
		return nil
	}
	return []schema.GroupVersionKind{certManager.WithKind("Certificate"), certManager.WithKind("Issuer")}
}

// Set implements pflag.Value.
func (p *Provider) Set(text string) error {
	if !slices.Contains(Providers(), text) {
		return fmt.Errorf("must be one of %s", strings.Join(Providers(), ", "))
	}
	*p = Provider(text)
	return nil
}

// String implements pflag.Value.
func (p *Provider) String() string {
	if *p == "" {
		return string(ProviderRemit)
	}
	return string(*p)
}

// Type implements pflag.Value.
func (p *Provider) Type() string { return "string" }
