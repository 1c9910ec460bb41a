package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

const (
	// Port is the port on which a registry serves gRPC.
	Port = 50051
	// ContainerName is the name of the registry's container.
	ContainerName = "registry-server"

	portName = "grpc"
	// reserved is the name of the API server's Service.
	reserved = "kubernetes"
)

// Registry is a catalog image to run.
type Registry struct {
	// Source is the CatalogSource that owns the objects.
	Source *operatorsv1alpha1.CatalogSource
	// Image is the image reference by digest. It may contain a tag instead if ByTag is set, because the digest is not known.
	Image string
	ByTag bool
	// ImageUser is the user in the image's configuration; "" means none, or unknown. A restricted Pod runs as WorkloadUser
	// unless ImageUser is a number other than 0, because the kubelet refuses to start such a Pod. If WorkloadUser is 0, the
	// Pod sets no user.
	ImageUser    string
	WorkloadUser int64
	// Restricted means that the namespace enforces the restricted Pod Security Standard.
	Restricted bool
}

// CheckName returns an error if a CatalogSource's name does not yield valid names and labels for its objects.
func CheckName(name string) error {
	if problems := validation.IsDNS1035Label(ServiceName(name)); len(problems) > 0 {
		return fmt.Errorf("the name of CatalogSource %q does not yield a valid Service name: %s", name, strings.Join(problems, "; "))
	}
	if ServiceName(name) == reserved {
		return fmt.Errorf("the name of CatalogSource %q is reserved for the API server", name)
	}
	return nil
}

// ServiceName is the name of a CatalogSource's Service.
func ServiceName(name string) string { return strings.ReplaceAll(name, ".", "-") }

// Address returns the address of a CatalogSource's Service.
func Address(key types.NamespacedName) string {
	return net.JoinHostPort(ServiceName(key.Name)+"."+key.Namespace+".svc", strconv.Itoa(Port))
}

// OwnedBy reports whether an object belongs only to the CatalogSource with this UID, not to a deleted one with the same
// name. The garbage collector would delete such an object together with the CatalogSource.
func OwnedBy(obj metav1.Object, source types.UID) bool {
	owners := obj.GetOwnerReferences()
	return len(owners) == 1 && owners[0].Kind == operatorsv1alpha1.CatalogSourceKind && owners[0].UID == source
}

// Owner returns the name of the CatalogSource that owns an object, or "".
func Owner(obj metav1.Object) string {
	for _, r := range obj.GetOwnerReferences() {
		if r.Kind == operatorsv1alpha1.CatalogSourceKind {
			return r.Name
		}
	}
	return ""
}

// meta returns the metadata of an object with this name. The CatalogSource is its controller, because `kubectl drain`
// does not evict Pods without a controller. blockOwnerDeletion is false, because it would require permissions on the
// CatalogSource's finalizers.
func (r Registry) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: r.Source.Namespace, Name: name, Labels: map[string]string{names.LabelManaged: "true"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.CatalogSourceKind,
			Name: r.Source.Name, UID: r.Source.UID, Controller: new(true), BlockOwnerDeletion: new(false),
		}},
	}
}

// ServiceAccount returns the registry's ServiceAccount, with the pull secrets that the kubelet uses. The ServiceAccount
// has no permissions, and its token is not mounted.
func (r Registry) ServiceAccount() *corev1.ServiceAccount {
	out := &corev1.ServiceAccount{ObjectMeta: r.meta(r.Source.Name), AutomountServiceAccountToken: new(false)}
	for _, name := range r.Source.Spec.Secrets {
		out.ImagePullSecrets = append(out.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	out.Labels[names.LabelPullSecretsHash] = hash(out.ImagePullSecrets)
	return out
}

// Service returns the Service through which clients other than Remit reach the registry.
func (r Registry) Service() *corev1.Service {
	out := &corev1.Service{
		ObjectMeta: r.meta(ServiceName(r.Source.Name)),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: map[string]string{names.LabelCatalogSource: r.Source.Name},
			Ports:    []corev1.ServicePort{{Name: portName, Protocol: corev1.ProtocolTCP, Port: Port, TargetPort: intstr.FromInt32(Port)}},
		},
	}
	out.Labels[names.LabelServiceSpecHash] = hash(out.Spec)
	return out
}

// Pod returns the Pod that serves the registry. Its hash includes the pull secrets, because a Pod uses those that its
// ServiceAccount had when the Pod was created.
func (r Registry) Pod() (*corev1.Pod, error) {
	if !r.ByTag && !isPinned(r.Image) {
		return nil, errors.New("the image of a registry must be referenced by digest")
	}
	out := &corev1.Pod{ObjectMeta: r.meta(""), Spec: r.podSpec()}
	out.GenerateName = r.Source.Name + "-"
	out.Annotations = r.podAnnotations()
	out.Annotations[names.AnnotationSafeToEvict] = "true"
	out.Labels[names.LabelCatalogSource] = r.Source.Name
	out.Labels[names.LabelPodSpecHash] = hash(struct {
		Spec    corev1.PodSpec
		Secrets []string
	}{out.Spec, r.Source.Spec.Secrets})
	return out, nil
}

// podAnnotations returns the annotations of the CatalogSource that only describe it. Others could make programs of the cluster change the
// Pod or give it more than its spec does. Users who may patch a CatalogSource could set them without the check of its author, which
// applies to its spec.
func (r Registry) podAnnotations() map[string]string {
	kept, _ := bundle.Keep("Pod", r.Source.Annotations)
	out := map[string]string{}
	for key, value := range kept {
		if bundle.ForDisplay(key) {
			out[key] = value
		}
	}
	return out
}

// isPinned reports whether an image is referenced by digest.
func isPinned(image string) bool { return strings.Contains(image, "@") }

// RunsByTag reports whether the image of a registry's Pod is not referenced by digest.
func RunsByTag(p *corev1.Pod) bool {
	return !slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return isPinned(c.Image) })
}

// AsUpdate returns a copy of the Pod as an update Pod, which no Service selects. The update Pod replaces the serving
// Pod once it is ready.
func AsUpdate(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.Labels[names.LabelCatalogSourceUpdate] = out.Labels[names.LabelCatalogSource]
	out.Labels[names.LabelCatalogSource] = ""
	return out
}

// Promoted returns a copy of an update Pod with the labels of the serving Pod.
func Promoted(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.Labels[names.LabelCatalogSource] = out.Labels[names.LabelCatalogSourceUpdate]
	delete(out.Labels, names.LabelCatalogSourceUpdate)
	return out
}

func hash(of any) string {
	encoded, _ := json.Marshal(of) // encoding API types cannot fail
	return ownerutil.Hash(string(encoded))
}
