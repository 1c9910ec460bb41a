package server

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Container settings that the contract defines; times are in seconds.
const (
	requestedCPU    = "10m"
	requestedMemory = "50Mi"

	probeTimeout    = 5
	readinessDelay  = 5
	livenessDelay   = 10
	startupPeriod   = 10
	startupFailures = 15
)

func (r Registry) podSpec() corev1.PodSpec {
	config := r.Source.Spec.GrpcPodConfig
	if config == nil {
		config = &operatorsv1alpha1.GrpcPodConfig{}
	}
	spec := corev1.PodSpec{
		ServiceAccountName:           r.Source.Name,
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		NodeSelector:                 map[string]string{corev1.LabelOSStable: string(corev1.Linux)},
		Containers:                   []corev1.Container{container(r.Image)},
		PriorityClassName:            cmp.Or(r.Source.Annotations[names.AnnotationPriorityClass], ptr.Deref(config.PriorityClassName, "")),
	}
	maps.Copy(spec.NodeSelector, config.NodeSelector)
	spec.Tolerations = append(spec.Tolerations, config.Tolerations...)
	spec.Affinity = config.Affinity.DeepCopy()
	configured := config.SecurityContextConfig
	if configured == operatorsv1alpha1.Restricted || r.Restricted && configured != operatorsv1alpha1.Legacy {
		restrict(&spec)
		spec.SecurityContext.RunAsUser = r.runAsUser()
	}
	if config.MemoryTarget != nil {
		target(&spec.Containers[0], *config.MemoryTarget)
	}
	return spec
}

// runAsUser returns the user of a restricted Pod, or nil if the image's own user is suitable or unknown users are left to
// admission.
func (r Registry) runAsUser() *int64 {
	uid, _, _ := strings.Cut(r.ImageUser, ":")
	if id, err := strconv.ParseInt(uid, 10, 64); err == nil && id > 0 || r.WorkloadUser == 0 {
		return nil
	}
	return &r.WorkloadUser
}

// container returns the registry's container. An image that is referenced by digest is pulled only if the node does not
// have it yet.
func container(image string) corev1.Container {
	policy := corev1.PullIfNotPresent
	if !isPinned(image) {
		policy = corev1.PullAlways
	}
	return corev1.Container{
		Name:                     ContainerName,
		Image:                    image,
		ImagePullPolicy:          policy,
		Ports:                    []corev1.ContainerPort{{Name: portName, ContainerPort: Port, Protocol: corev1.ProtocolTCP}},
		ReadinessProbe:           probe(corev1.Probe{InitialDelaySeconds: readinessDelay}),
		LivenessProbe:            probe(corev1.Probe{InitialDelaySeconds: livenessDelay}),
		StartupProbe:             probe(corev1.Probe{PeriodSeconds: startupPeriod, FailureThreshold: startupFailures}),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(requestedCPU),
			corev1.ResourceMemory: resource.MustParse(requestedMemory),
		}},
	}
}

func probe(times corev1.Probe) *corev1.Probe {
	times.GRPC = &corev1.GRPCAction{Port: Port}
	times.TimeoutSeconds = probeTimeout
	return &times
}

// restrict applies the requirements of the restricted Pod Security Standard.
func restrict(spec *corev1.PodSpec) {
	spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// target sets the memory limit of the registry's Go runtime, and requests that memory from the node.
func target(c *corev1.Container, memory resource.Quantity) {
	c.Resources.Requests[corev1.ResourceMemory] = memory
	c.Env = append(c.Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: strconv.FormatInt(memory.Value(), 10)})
}
