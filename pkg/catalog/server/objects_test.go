package server

import (
	"maps"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/lib/names"
)

const pinned = "quay.io/team/catalog@sha256:0123"

func given(change ...func(cs *operatorsv1alpha1.CatalogSource)) Registry {
	cs := &operatorsv1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "my.catalog", UID: "u1"},
		Spec:       operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "quay.io/team/catalog:v1"},
	}
	for _, c := range change {
		c(cs)
	}
	return Registry{Source: cs, Image: pinned}
}

func config(c operatorsv1alpha1.GrpcPodConfig) func(cs *operatorsv1alpha1.CatalogSource) {
	return func(cs *operatorsv1alpha1.CatalogSource) { cs.Spec.GrpcPodConfig = &c }
}

func requireOwned(t *testing.T, obj metav1.Object) {
	t.Helper()
	require.Equal(t, []metav1.OwnerReference{{
		APIVersion: "operators.coreos.com/v1alpha1", Kind: "CatalogSource", Name: "my.catalog", UID: "u1",
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
	}}, obj.GetOwnerReferences())
	require.True(t, OwnedBy(obj, "u1"))
	require.False(t, OwnedBy(obj, "u2"), "an earlier CatalogSource with the same name")
	shared := &metav1.ObjectMeta{OwnerReferences: append(obj.GetOwnerReferences(), metav1.OwnerReference{Kind: "Pod", UID: "u3"})}
	require.False(t, OwnedBy(shared, "u1"), "an object with another owner")
	require.Equal(t, "my.catalog", Owner(obj))
	require.Empty(t, Owner(&metav1.ObjectMeta{}))
	require.Equal(t, "remit", obj.GetNamespace())
}

func TestServiceAccountHasOnlyThePullSecrets(t *testing.T) {
	got := given(func(cs *operatorsv1alpha1.CatalogSource) { cs.Spec.Secrets = []string{"a", "b"} }).ServiceAccount()
	requireOwned(t, got)
	require.Equal(t, "my.catalog", got.Name)
	require.Equal(t, []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}, got.ImagePullSecrets)
	require.Equal(t, ptr.To(false), got.AutomountServiceAccountToken)
	require.Empty(t, got.Secrets)
	bare := given().ServiceAccount()
	require.NotEqual(t, bare.Labels[names.LabelPullSecretsHash], got.Labels[names.LabelPullSecretsHash])
}

func TestServiceSelectsTheServingPod(t *testing.T) {
	r := given()
	got := r.Service()
	requireOwned(t, got)
	require.Equal(t, "my-catalog", got.Name)
	require.Equal(t, map[string]string{"olm.catalogSource": "my.catalog"}, got.Spec.Selector)
	require.Len(t, got.Spec.Ports, 1)
	require.EqualValues(t, 50051, got.Spec.Ports[0].Port)
	require.Equal(t, "grpc", got.Spec.Ports[0].Name)
	require.NotEmpty(t, got.Labels["olm.service-spec-hash"])
	require.Equal(t, "my-catalog.remit.svc:50051", Address(types.NamespacedName{Namespace: "remit", Name: "my.catalog"}))

	pod, err := r.Pod()
	require.NoError(t, err)
	require.Equal(t, "my.catalog", pod.Labels["olm.catalogSource"])
	update := AsUpdate(pod)
	require.Equal(t, "", update.Labels["olm.catalogSource"])
	require.Equal(t, "my.catalog", update.Labels["catalogsource.operators.coreos.com/update"])
	require.True(t, IsUpdate(update))
	require.Equal(t, pod, Promoted(update))
}

func TestRefusesTheNameOfTheAPIServersService(t *testing.T) {
	require.NoError(t, CheckName("my.catalog"))
	require.ErrorContains(t, CheckName("kubernetes"), "reserved for the API server")
}

func TestPodMatchesTheContract(t *testing.T) {
	got, err := given(func(cs *operatorsv1alpha1.CatalogSource) {
		cs.Annotations = map[string]string{"team": "a", corev1.LastAppliedConfigAnnotation: "{}"}
	}).Pod()
	require.NoError(t, err)
	requireOwned(t, got)
	require.Equal(t, "my.catalog-", got.GenerateName)
	require.Empty(t, got.Name)
	require.Equal(t, map[string]string{"team": "a", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}, got.Annotations)
	require.Equal(t, "true", got.Labels["olm.managed"])
	require.NotEmpty(t, got.Labels["olm.pod-spec-hash"])

	spec := got.Spec
	require.Equal(t, "my.catalog", spec.ServiceAccountName)
	require.Equal(t, ptr.To(false), spec.AutomountServiceAccountToken)
	require.Equal(t, ptr.To(false), spec.EnableServiceLinks)
	require.Equal(t, map[string]string{"kubernetes.io/os": "linux"}, spec.NodeSelector)
	require.Nil(t, spec.SecurityContext)
	require.Empty(t, spec.Volumes)
	require.Len(t, spec.Containers, 1)
	c := spec.Containers[0]
	require.Equal(t, "registry-server", c.Name)
	require.Equal(t, pinned, c.Image)
	require.Equal(t, corev1.PullIfNotPresent, c.ImagePullPolicy)
	require.Equal(t, []corev1.ContainerPort{{Name: "grpc", ContainerPort: 50051, Protocol: "TCP"}}, c.Ports)
	require.Equal(t, corev1.TerminationMessageFallbackToLogsOnError, c.TerminationMessagePolicy)
	require.Equal(t, "10m", c.Resources.Requests.Cpu().String())
	require.Equal(t, "50Mi", c.Resources.Requests.Memory().String())
	require.Empty(t, c.Resources.Limits)
	require.Empty(t, c.Env)
	require.Empty(t, c.Command)
	for _, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		require.EqualValues(t, 50051, p.GRPC.Port)
		require.EqualValues(t, 5, p.TimeoutSeconds)
	}
	require.EqualValues(t, 5, c.ReadinessProbe.InitialDelaySeconds)
	require.EqualValues(t, 10, c.LivenessProbe.InitialDelaySeconds)
	require.EqualValues(t, 15, c.StartupProbe.FailureThreshold)
	require.EqualValues(t, 10, c.StartupProbe.PeriodSeconds)
}

// The author of a CatalogSource is checked for its spec. Other users may be able to annotate it (escape suite 50).
func TestAPodHasNoAnnotationsThatOtherProgramsActOn(t *testing.T) {
	harmless := map[string]string{"team": "a", "operatorframework.io/priorityclass": "high", "console.openshift.io/operator-monitoring-default": "true"}
	got, err := given(func(cs *operatorsv1alpha1.CatalogSource) {
		cs.Annotations = map[string]string{
			"sidecar.istio.io/inject": "true", "sidecar.istio.io/proxyImage": "evil.example.com/proxy", "k8s.v1.cni.cncf.io/networks": "host",
			"iam.amazonaws.com/role": "admin", "container.apparmor.security.beta.kubernetes.io/registry-server": "unconfined",
			"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "olm.catalogImageTemplate": "x", "argocd.argoproj.io/tracking-id": "x",
		}
		maps.Copy(cs.Annotations, harmless)
	}).Pod()
	require.NoError(t, err)
	want := maps.Clone(harmless)
	want["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "true"
	require.Equal(t, want, got.Annotations)
}

func TestGrpcPodConfig(t *testing.T) {
	restrictedPod := func(t *testing.T, spec corev1.PodSpec) {
		require.Equal(t, ptr.To(true), spec.SecurityContext.RunAsNonRoot)
		require.Nil(t, spec.SecurityContext.RunAsUser)
		require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
		require.Equal(t, ptr.To(false), spec.Containers[0].SecurityContext.AllowPrivilegeEscalation)
		require.Equal(t, []corev1.Capability{"ALL"}, spec.Containers[0].SecurityContext.Capabilities.Drop)
	}
	legacyPod := func(t *testing.T, spec corev1.PodSpec) {
		require.Nil(t, spec.SecurityContext)
		require.Nil(t, spec.Containers[0].SecurityContext)
	}
	affinity := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	for name, tt := range map[string]struct {
		config     operatorsv1alpha1.GrpcPodConfig
		annotation string
		restricted bool
		want       func(t *testing.T, spec corev1.PodSpec)
	}{
		"nodeSelector": {config: operatorsv1alpha1.GrpcPodConfig{NodeSelector: map[string]string{"disk": "ssd"}}, want: func(t *testing.T, spec corev1.PodSpec) {
			require.Equal(t, map[string]string{"disk": "ssd", "kubernetes.io/os": "linux"}, spec.NodeSelector)
		}},
		"nodeSelector for another operating system": {config: operatorsv1alpha1.GrpcPodConfig{NodeSelector: map[string]string{"kubernetes.io/os": "windows"}},
			want: func(t *testing.T, spec corev1.PodSpec) {
				require.Equal(t, map[string]string{"kubernetes.io/os": "windows"}, spec.NodeSelector)
			}},
		"tolerations": {config: operatorsv1alpha1.GrpcPodConfig{Tolerations: []corev1.Toleration{{Key: "infra", Operator: "Exists"}}},
			want: func(t *testing.T, spec corev1.PodSpec) {
				require.Equal(t, []corev1.Toleration{{Key: "infra", Operator: "Exists"}}, spec.Tolerations)
			}},
		"affinity": {config: operatorsv1alpha1.GrpcPodConfig{Affinity: affinity}, want: func(t *testing.T, spec corev1.PodSpec) {
			require.Equal(t, affinity, spec.Affinity)
			require.NotSame(t, affinity, spec.Affinity)
		}},
		"priorityClassName": {config: operatorsv1alpha1.GrpcPodConfig{PriorityClassName: ptr.To("high")}, want: func(t *testing.T, spec corev1.PodSpec) {
			require.Equal(t, "high", spec.PriorityClassName)
		}},
		"priorityClassName by annotation": {config: operatorsv1alpha1.GrpcPodConfig{PriorityClassName: ptr.To("high")}, annotation: "higher",
			want: func(t *testing.T, spec corev1.PodSpec) { require.Equal(t, "higher", spec.PriorityClassName) }},
		"annotation without config": {annotation: "higher", want: func(t *testing.T, spec corev1.PodSpec) {
			require.Equal(t, "higher", spec.PriorityClassName)
		}},
		"restricted":                        {config: operatorsv1alpha1.GrpcPodConfig{SecurityContextConfig: "restricted"}, want: restrictedPod},
		"legacy":                            {config: operatorsv1alpha1.GrpcPodConfig{SecurityContextConfig: "legacy"}, restricted: true, want: legacyPod},
		"default in a restricted namespace": {restricted: true, want: restrictedPod},
		"default in another namespace":      {want: legacyPod},
		"memoryTarget": {config: operatorsv1alpha1.GrpcPodConfig{MemoryTarget: ptr.To(resource.MustParse("128Mi"))}, want: func(t *testing.T, spec corev1.PodSpec) {
			require.Equal(t, "128Mi", spec.Containers[0].Resources.Requests.Memory().String())
			require.Equal(t, "10m", spec.Containers[0].Resources.Requests.Cpu().String())
			require.Equal(t, []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "134217728"}}, spec.Containers[0].Env)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := given(config(tt.config), func(cs *operatorsv1alpha1.CatalogSource) {
				cs.Annotations = map[string]string{"operatorframework.io/priorityclass": tt.annotation}
			})
			r.Restricted = tt.restricted
			got, err := r.Pod()
			require.NoError(t, err)
			tt.want(t, got.Spec)
		})
	}
}

func TestHashReflectsWhatThePodWasCreatedFrom(t *testing.T) {
	hashOf := func(r Registry) string {
		pod, err := r.Pod()
		require.NoError(t, err)
		return pod.Labels[names.LabelPodSpecHash]
	}
	first := hashOf(given())
	require.Equal(t, first, hashOf(given()))
	require.Equal(t, first, hashOf(given(func(cs *operatorsv1alpha1.CatalogSource) {
		cs.Annotations, cs.Spec.Priority, cs.Spec.DisplayName = map[string]string{"team": "a"}, 7, "Mine"
	})), "none of these changes requires a new Pod")
	other := given()
	other.Image += "4"
	require.NotEqual(t, first, hashOf(other))
	require.NotEqual(t, first, hashOf(given(func(cs *operatorsv1alpha1.CatalogSource) { cs.Spec.Secrets = []string{"a"} })))
	require.NotEqual(t, first, hashOf(given(config(operatorsv1alpha1.GrpcPodConfig{NodeSelector: map[string]string{"a": "b"}}))))
}

func TestRefusesAnImageReferencedByTag(t *testing.T) {
	r := given()
	r.Image = "quay.io/team/catalog:v1"
	_, err := r.Pod()
	require.ErrorContains(t, err, "digest")
	r.ByTag = true
	pod, err := r.Pod()
	require.NoError(t, err)
	require.Equal(t, corev1.PullAlways, pod.Spec.Containers[0].ImagePullPolicy, "a tag can move")
	require.True(t, RunsByTag(pod))
	r.Image = pinned
	pod, err = r.Pod()
	require.NoError(t, err)
	require.False(t, RunsByTag(pod))
}

// The kubelet does not start a Pod with runAsNonRoot whose user is root or not a number.
func TestSetsTheWorkloadUserWhereTheImageHasNone(t *testing.T) {
	for _, row := range []struct {
		image      string
		flag       int64
		restricted bool
		want       *int64
	}{
		{"", 1001, true, ptr.To[int64](1001)},
		{"root", 1001, true, ptr.To[int64](1001)},
		{"0", 1001, true, ptr.To[int64](1001)},
		{"0:1001", 1001, true, ptr.To[int64](1001)},
		{"nobody:nobody", 1001, true, ptr.To[int64](1001)},
		{"-1", 1001, true, ptr.To[int64](1001)},
		{"1", 1001, true, nil},
		{"65532:0", 1001, true, nil},
		{"", 0, true, nil},
		{"root", 1001, false, nil},
	} {
		r := given()
		r.ImageUser, r.WorkloadUser, r.Restricted = row.image, row.flag, row.restricted
		pod, err := r.Pod()
		require.NoError(t, err)
		if row.restricted {
			require.Equal(t, row.want, pod.Spec.SecurityContext.RunAsUser, row)
		} else {
			require.Nil(t, pod.Spec.SecurityContext, row)
		}
	}
}

func TestRefusesInvalidServiceNames(t *testing.T) {
	for name, ok := range map[string]bool{"catalog": true, "my.catalog": true, "1st": false, "a123456789012345678901234567890123456789012345678901234567890123": false} {
		require.Equal(t, ok, CheckName(name) == nil, name)
	}
}
