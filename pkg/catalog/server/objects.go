package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

const (
	// Port is where a registry serves gRPC.
	Port = 50051
	// ContainerName is that of the registry in its Pod.
	ContainerName = "registry-server"

	portName = "grpc"
	// reserved is the name by which programs find the API server.
	reserved = "kubernetes"
	// lastApplied is kubectl's copy of the CatalogSource; it is nothing about a Pod.
	lastApplied = corev1.LastAppliedConfigAnnotation
)

// Registry is a catalog image that is to be run.
type Registry struct {
	// Source is the CatalogSource that owns all that is made for it.
	Source *operatorsv1alpha1.CatalogSource
	// Image names it by its digest.
	Image string
	// Restricted says that the namespace enforces the restricted Pod Security Standard.
	Restricted bool
}

// CheckName says whether objects can have the names and labels that a CatalogSource's name gives them.
func CheckName(name string) error {
	if problems := validation.IsDNS1035Label(ServiceName(name)); len(problems) > 0 {
		return fmt.Errorf("no Service can be named after CatalogSource %q: %s", name, strings.Join(problems, "; "))
	}
	if ServiceName(name) == reserved {
		return fmt.Errorf("no Service can be named after CatalogSource %q: the name is reserved for the API server", name)
	}
	return nil
}

// ServiceName is the name of a CatalogSource's Service.
func ServiceName(name string) string { return strings.ReplaceAll(name, ".", "-") }

// Address is what the Service is reached at.
func Address(key types.NamespacedName) string {
	return net.JoinHostPort(ServiceName(key.Name)+"."+key.Namespace+".svc", strconv.Itoa(Port))
}

// OwnedBy says whether an object was made for this very CatalogSource. One of that name that was deleted since does not count.
func OwnedBy(obj metav1.Object, source types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.Kind == operatorsv1alpha1.CatalogSourceKind && r.UID == source
	})
}

// Owner is the name of the CatalogSource that an object was made for; empty where there is none.
func Owner(obj metav1.Object) string {
	for _, r := range obj.GetOwnerReferences() {
		if r.Kind == operatorsv1alpha1.CatalogSourceKind {
			return r.Name
		}
	}
	return ""
}

// meta has the CatalogSource as the controller, or `kubectl drain` would not let a node go for want of one that makes the Pod
// anew. It does not block the CatalogSource's deletion: that would take a right on its finalizers.
func (r Registry) meta(name string) metav1.ObjectMeta {
	yes, no := true, false
	return metav1.ObjectMeta{
		Namespace: r.Source.Namespace, Name: name, Labels: map[string]string{names.LabelManaged: "true"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.CatalogSourceKind,
			Name: r.Source.Name, UID: r.Source.UID, Controller: &yes, BlockOwnerDeletion: &no,
		}},
	}
}

// ServiceAccount holds the pull secrets, for the kubelet. It has no rights, and no token of it is mounted.
func (r Registry) ServiceAccount() (*corev1.ServiceAccount, error) {
	no := false
	out := &corev1.ServiceAccount{ObjectMeta: r.meta(r.Source.Name), AutomountServiceAccountToken: &no}
	for _, name := range r.Source.Spec.Secrets {
		out.ImagePullSecrets = append(out.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	var err error
	out.Labels[names.LabelPullSecretsHash], err = hash(out.ImagePullSecrets)
	return out, err
}

// Service is for others who ask the registry.
func (r Registry) Service() (*corev1.Service, error) {
	out := &corev1.Service{
		ObjectMeta: r.meta(ServiceName(r.Source.Name)),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: map[string]string{names.LabelCatalogSource: r.Source.Name},
			Ports:    []corev1.ServicePort{{Name: portName, Protocol: corev1.ProtocolTCP, Port: Port, TargetPort: intstr.FromInt32(Port)}},
		},
	}
	var err error
	out.Labels[names.LabelServiceSpecHash], err = hash(out.Spec)
	return out, err
}

// Pod serves the registry. Its hash covers the pull secrets too: a Pod has those that its ServiceAccount had when it was made.
func (r Registry) Pod() (*corev1.Pod, error) {
	if !strings.Contains(r.Image, "@") {
		return nil, errors.New("a registry's image is named by its digest")
	}
	out := &corev1.Pod{ObjectMeta: r.meta(""), Spec: r.podSpec()}
	out.GenerateName = r.Source.Name + "-"
	out.Annotations = maps.Clone(r.Source.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	delete(out.Annotations, lastApplied)
	out.Annotations[names.AnnotationSafeToEvict] = "true"
	out.Labels[names.LabelCatalogSource] = r.Source.Name
	var err error
	out.Labels[names.LabelPodSpecHash], err = hash(struct {
		Spec    corev1.PodSpec
		Secrets []string
	}{out.Spec, r.Source.Spec.Secrets})
	return out, err
}

// Updating is the Pod as one that is to take the place of another once it is ready: no Service selects it before.
func Updating(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.Labels[names.LabelCatalogSourceUpdate] = out.Labels[names.LabelCatalogSource]
	out.Labels[names.LabelCatalogSource] = ""
	return out
}

// Promoted is the update Pod as the one that serves.
func Promoted(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.Labels[names.LabelCatalogSource] = out.Labels[names.LabelCatalogSourceUpdate]
	delete(out.Labels, names.LabelCatalogSourceUpdate)
	return out
}

func hash(of any) (string, error) {
	encoded, err := json.Marshal(of)
	if err != nil {
		return "", fmt.Errorf("hash of %T: %w", of, err)
	}
	return ownerutil.Hash(string(encoded)), nil
}
