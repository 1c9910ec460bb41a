package podenv

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/remit-olm/remit/controlplane/internal/config"
)

func TestBuild(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "x"}
	reader := config.Reader{Namespace: "ns", Client: fake.NewClientset(
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": []byte("secret")}},
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": "map"}},
	)}
	ref := corev1.LocalObjectReference{Name: "x"}
	none := corev1.LocalObjectReference{Name: "none"}
	for _, test := range []struct {
		name    string
		from    []corev1.EnvFromSource
		env     []corev1.EnvVar
		want    Env
		missing bool
	}{
		{name: "keeps the base", want: Env{"BASE": "b"}},
		{name: "lets the spec override the base", env: []corev1.EnvVar{{Name: "BASE", Value: "own"}}, want: Env{"BASE": "own"}},
		{
			name: "expands earlier variables", env: []corev1.EnvVar{{Name: "A", Value: "$(BASE)$(LATER)$$(BASE)"}, {Name: "LATER", Value: "1"}},
			want: Env{"BASE": "b", "A": "b$(LATER)$(BASE)", "LATER": "1"},
		},
		{
			name: "lets env override envFrom",
			from: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}, Prefix: "P_"}},
			env: []corev1.EnvVar{{Name: "P_k", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref, Key: "k"},
			}}},
			want: Env{"BASE": "b", "P_k": "secret"},
		},
		{
			name: "skips optional references",
			from: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: none, Optional: new(true)}}},
			env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref, Key: "no", Optional: new(true)},
			}}},
			want: Env{"BASE": "b"},
		},
		{
			name: "reports a missing key",
			env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref, Key: "no"},
			}}},
			missing: true,
		},
		{
			name:    "reports a missing Secret",
			from:    []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: none}}},
			missing: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &corev1.Container{EnvFrom: test.from, Env: test.env}
			got, err := Build(t.Context(), Env{"BASE": "b"}, reader, Facts{Pod: &corev1.Pod{}}, c)
			if test.missing {
				var missing *config.Missing
				require.ErrorAs(t, err, &missing)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestFieldsAndResources(t *testing.T) {
	f := Facts{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Labels: map[string]string{"a/b": "l"}},
			Spec:       corev1.PodSpec{NodeName: "n", ServiceAccountName: "sa", Containers: []corev1.Container{{Name: "c"}}},
		},
		PodIP: "10.1.0.1", HostIP: "10.1.255.253",
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
	}
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.uid": "u", "metadata.labels['a/b']": "l", "metadata.annotations['no']": "",
		"spec.nodeName": "n", "spec.serviceAccountName": "sa", "status.podIP": "10.1.0.1", "status.hostIP": "10.1.255.253",
	} {
		got, err := Field(f, path)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}
	cpu, err := Resource(f, &corev1.ResourceFieldSelector{Resource: "limits.cpu"}, "c")
	require.NoError(t, err)
	require.Equal(t, "8", cpu, "without a limit, the node's applies")
}

func TestArgsDropTheEntrypoint(t *testing.T) {
	c := &corev1.Container{Command: []string{"/manager", "run"}, Args: []string{"--x=$(X)"}}
	require.Equal(t, []string{"run", "--x=1"}, Args(Env{"X": "1"}, c))
	require.Equal(t, []string{"a"}, Args(nil, &corev1.Container{Args: []string{"a"}}))
}
