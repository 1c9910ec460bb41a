package serving

import (
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Input contains the data from which the objects of one install are rendered.
type Input struct {
	CSV   *operatorsv1alpha1.ClusterServiceVersion
	Owner ownerutil.Owner
	// Tool issues the certificates instead of Remit; nil if Remit issues them.
	Tool *Tool
}

// Service returns the Service of a Deployment. recorded contains the hashes of the CAs that Remit issued for the
// Deployment. The Service's annotation stores them, so that Remit can distinguish these CAs from CAs that other clients add to the Secret.
func (in Input) Service(d Deployment, recorded []string) (*unstructured.Unstructured, error) {
	annotations := in.Tool.service(d.Name)
	if len(recorded) > 0 {
		annotations = map[string]string{names.AnnotationCAHashes: strings.Join(slices.Sorted(slices.Values(recorded)), ",")}
	}
	meta := in.meta(cert.ServiceName(d.Name))
	meta.Annotations = annotations
	return apply.Object(&corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta,
		Spec:       corev1.ServiceSpec{Selector: selectorOf(in.CSV, d.Name), Ports: servicePorts(d.Ports)},
	})
}

// Recorded returns the CA hashes that are recorded on a Service.
func Recorded(service metav1.Object) []string {
	return strings.FieldsFunc(service.GetAnnotations()[names.AnnotationCAHashes], func(r rune) bool { return r == ',' })
}

// Secret returns the Secret of a Deployment with the certificates of the set.
func (in Input) Secret(d Deployment, set cert.Set) (*unstructured.Unstructured, error) {
	meta := in.meta(cert.SecretName(d.Name))
	meta.Annotations = map[string]string{names.AnnotationCAHash: set.Hash()}
	return apply.Object(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeTLS,
		Data:       set.Data(),
	})
}

// Access returns the objects that allow the ServiceAccount of a Deployment to read its Secret, as the contract
// requires.
func (in Input) Access(d Deployment) ([]*unstructured.Unstructured, error) {
	return apply.Objects(rbac.RoleAndBinding(in.meta(cert.SecretName(d.Name)), CertificateRules(d), Subject(in.CSV, d.Name)))
}

// CertificateRules returns the rules that Access grants.
func CertificateRules(d Deployment) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{cert.SecretName(d.Name)}, Verbs: []string{"get"}}}
}

// Subject returns the ServiceAccount that a Deployment runs as.
func Subject(csv *operatorsv1alpha1.ClusterServiceVersion, name string) rbacv1.Subject {
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: csv.Namespace}
	if spec := deployment.SpecOf(csv, name); spec != nil {
		subject.Name = deployment.ServiceAccountName(&spec.Spec.Template.Spec)
	}
	return subject
}

func (in Input) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: in.Owner.Namespace, Labels: in.Owner.Labels(), OwnerReferences: []metav1.OwnerReference{in.Owner.Reference()},
	}
}
