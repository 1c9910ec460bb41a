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

// Priorities of the contract (1.12).
const (
	groupPriorityMinimum = 2000
	versionPriority      = 15
)

// Roles of Kubernetes that an API server needs to authenticate and authorize callers and to read the front proxy's
// CA.
const (
	delegator  = "system:auth-delegator"
	authReader = "extension-apiserver-authentication-reader"
)

// Input is what the APIServices of one install are derived from.
type Input struct {
	CSV   *operatorsv1alpha1.ClusterServiceVersion
	Owner ownerutil.Owner
	// NamespaceUID is the UID of the CSV's namespace.
	NamespaceUID types.UID
	// Trust returns the caBundle for a Deployment's APIs. If it is empty, the field is left to other managers.
	Trust func(deployment string) []byte
	// Annotations ask another certificate tool to inject the caBundle.
	Annotations map[string]string
}

// Desired returns the APIService of one API.
func (in Input) Desired(api API) (*unstructured.Unstructured, error) {
	meta := in.meta(api.Name())
	meta.Annotations = in.Annotations
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

// Access returns the bindings that a Deployment needs to serve APIs. Their names contain a hash of the namespace and
// the owner, so they never collide with those of another install.
func (in Input) Access(deployment string) ([]*unstructured.Unstructured, error) {
	service := cert.ServiceName(deployment)
	hash := ownerutil.Hash(in.Owner.Namespace, in.Owner.Package, service)
	subject := serving.Subject(in.CSV, deployment)
	toAsk, toRead := in.meta(service+"-"+delegator+"-"+hash), in.meta(service+"-auth-reader-"+hash)
	toRead.Namespace = metav1.NamespaceSystem
	return apply.Objects(rbac.BindingTo("ClusterRole", delegator, toAsk, subject), rbac.BindingTo("Role", authReader, toRead, subject))
}

func (in Input) meta(name string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: name, Labels: in.Owner.Labels()}
	if in.NamespaceUID != "" {
		meta.OwnerReferences = []metav1.OwnerReference{ownerutil.NamespaceReference(in.CSV.Namespace, in.NamespaceUID)}
	}
	return meta
}
