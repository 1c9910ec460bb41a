package serving

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/apply"
)

// Lifetime of the certificates that cert-manager issues: two years, renewed one day before they expire.
const (
	issuedFor    = "17520h0m0s"
	renewedAhead = "24h0m0s"
)

// certificateName is the annotation on a Secret that names the Certificate for which cert-manager wrote the Secret.
const certificateName = "cert-manager.io/certificate-name"

// certManager is the API of cert-manager. Its types are not imported, because a bundle's install uses only these fields.
var certManager = schema.GroupVersion{Group: "cert-manager.io", Version: "v1"}

// Issued returns a reference to the Secret that cert-manager writes for the Certificate of a Deployment, or nil if the install
// contains no such Certificate. The Secret and the Certificate have the same name.
func (in Input) Issued(d Deployment) *unstructured.Unstructured {
	if !in.Tool.isPart() {
		return nil
	}
	return apply.Reference(corev1.SchemeGroupVersion.WithKind("Secret"), in.Owner.Namespace, cert.SecretName(d.Name))
}

// Issues reports whether an object is the Certificate for which cert-manager writes a Secret.
func Issues(obj, secret *unstructured.Unstructured) bool {
	return obj.GroupVersionKind().GroupKind() == certManager.WithKind("Certificate").GroupKind() &&
		obj.GetNamespace() == secret.GetNamespace() && obj.GetName() == secret.GetName()
}

// IsIssued reports whether, according to its annotation, cert-manager wrote the Secret for the Certificate of the same name.
// Anyone who can write the Secret can set the annotation.
func IsIssued(secret metav1.Object) bool {
	return secret.GetAnnotations()[certificateName] == secret.GetName()
}

// Issue returns the self-signed Issuer and the Certificate of a Deployment, or nothing if the install's tool does not need
// them.
func (in Input) Issue(d Deployment) ([]*unstructured.Unstructured, error) {
	if !in.Tool.isPart() {
		return nil, nil
	}
	hosts := []any{}
	for _, host := range cert.Hosts(d.Name, in.Owner.Namespace) {
		hosts = append(hosts, host)
	}
	var out []*unstructured.Unstructured
	for _, part := range []struct {
		kind string
		spec map[string]any
	}{
		{"Issuer", map[string]any{"selfSigned": map[string]any{}}},
		{"Certificate", map[string]any{
			"secretName": cert.SecretName(d.Name), "dnsNames": hosts, "duration": issuedFor, "renewBefore": renewedAhead,
			"usages": []any{"server auth"}, "issuerRef": map[string]any{"kind": "Issuer", "name": cert.SecretName(d.Name)},
		}},
	} {
		meta := in.meta(cert.SecretName(d.Name))
		metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&meta)
		if err != nil {
			return nil, err
		}
		obj := apply.Reference(certManager.WithKind(part.kind), meta.Namespace, meta.Name)
		delete(metadata, "creationTimestamp")
		obj.Object["metadata"], obj.Object["spec"] = metadata, part.spec
		out = append(out, obj)
	}
	return out, nil
}
