package volume

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/remit-olm/remit/controlplane/internal/config"
	"github.com/remit-olm/remit/controlplane/internal/podenv"
)

func TestMountsHonorItemsSubPathsAndNesting(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"k": []byte("v"), "other": nil},
	})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
					SecretName: "s", Items: []corev1.KeyToPath{{Key: "k", Path: "deep/key"}},
				}}},
				{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
					Items: []corev1.DownwardAPIVolumeFile{{
						Path: "app", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"},
					}},
				}}},
			},
			Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{
				{Name: "s", MountPath: "/work/secret"},
				{Name: "scratch", MountPath: "/work"},
				{Name: "s", MountPath: "/etc/key", SubPath: "deep/key"},
				{Name: "info", MountPath: "/info"},
			}}},
		},
	}
	s := NewSet(config.Reader{Client: client, Namespace: "ns"}, t.TempDir())
	require.NoError(t, s.Sync(t.Context(), podenv.Facts{Pod: pod}))
	for range 2 { // a container that restarts mounts its volumes again
		root, err := s.Mount(&pod.Spec.Containers[0], nil)
		require.NoError(t, err)
		require.Equal(t, "v", read(t, root, "work/secret/deep/key"))
		require.Equal(t, "v", read(t, root, "etc/key"))
		require.Equal(t, "x", read(t, root, "info/app"))
		require.NoFileExists(t, filepath.Join(root, "work/secret/other"))
	}
	require.NoError(t, s.Remove())
}

func TestSyncReportsMissingObjects(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "gone"},
		}},
	}}}}
	s := NewSet(config.Reader{Client: fake.NewClientset(), Namespace: "ns"}, t.TempDir())
	var missing *config.Missing
	require.ErrorAs(t, s.Sync(t.Context(), podenv.Facts{Pod: pod}), &missing)
	require.Equal(t, "gone", missing.Name)

	pod.Spec.Volumes[0].ConfigMap.Optional = new(true)
	require.NoError(t, s.Sync(t.Context(), podenv.Facts{Pod: pod}))
}
