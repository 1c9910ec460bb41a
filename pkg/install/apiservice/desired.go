package apiservice

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Priorities that the contract defines.
const (
	groupPriorityMinimum = 2000
	versionPriority      = 15
)

// Kubernetes roles that an extension API server needs to authenticate and authorize callers, and to read the front
// proxy's CA.
const (
	delegator  = "system:auth-delegator"
	authReader = "extension-apiserver-authentication-reader"
)

// Input contains the data from which the APIServices of one install are rendered.
type Input struct {
	CSV   *operatorsv1alpha1.ClusterServiceVersion
	Owner ownerutil.Owner
	// NamespaceUID is the UID of the CSV's namespace. If it is set, the namespace owns the objects.
	NamespaceUID types.UID
	// Trust returns the caBundle for a Deployment's APIs. If it returns nil, the caBundle is left to other field
	// managers.
	Trust func(deployment string) []byte
	// Plain reports whether a binding may have the name that OLM uses, which contains neither the namespace nor the package of
	// the operator. If it is nil, no binding may have that name.
	Plain func(kind, namespace, name string) bool
	// Annotations returns annotations for the APIServices of a Deployment that make another certificate tool inject the
	// caBundle; nil means that there are none.
	Annotations func(deployment string) map[string]string
}

// Desired returns the desired APIService for an API.
func (in Input) Desired(api API) (*unstructured.Unstructured, error) {
	meta := in.meta(api.Name())
	if in.Annotations != nil {
		meta.Annotations = in.Annotations(api.Deployment)
	}
	obj := &apiregistrationv1.APIService{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiregistrationv1.SchemeGroupVersion.String(), Kind: "APIService"},
		ObjectMeta: meta,
		Spec: apiregistrationv1.APIServiceSpec{
			Group: api.Group, Version: api.Version, GroupPriorityMinimum: groupPriorityMinimum, VersionPriority: versionPriority,
			Service: &apiregistrationv1.ServiceReference{
				Namespace: in.CSV.Namespace, Name: cert.ServiceName(api.Deployment), Port: ptr.To(api.Port),
			},
		},
	}
	if in.Trust != nil {
		obj.Spec.CABundle = in.Trust(api.Deployment)
	}
	return apply.Object(obj)
}

// Access returns the bindings that a Deployment needs to serve APIs. Unless in.Plain allows the name that OLM uses (contract
// 1.12), their names contain a hash of the namespace and the owner, so they do not collide with the bindings of another
// install.
func (in Input) Access(deployment string) ([]*unstructured.Unstructured, error) {
	service := cert.ServiceName(deployment)
	hash := ownerutil.Hash(in.Owner.Namespace, in.Owner.Package, service)
	subject := serving.Subject(in.CSV, deployment)
	name := func(kind, namespace, plain string) string {
		if in.Plain != nil && in.Plain(kind, namespace, plain) {
			return plain
		}
		return plain + "-" + hash
	}
	toAsk := in.meta(name("ClusterRoleBinding", "", service+"-"+delegator))
	toRead := in.meta(name("RoleBinding", metav1.NamespaceSystem, service+"-auth-reader"))
	toRead.Namespace = metav1.NamespaceSystem
	return apply.Objects(rbac.BindingTo("ClusterRole", delegator, toAsk, subject), rbac.BindingTo("Role", authReader, toRead, subject))
}

func (in Input) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: in.Owner.Labels(), OwnerReferences: in.Owner.Outside(in.NamespaceUID)}
}
