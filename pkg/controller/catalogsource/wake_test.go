package catalogsource

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/catalog/server"
	sizes "github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// Any user can create Pods with the label of a registry.
func TestTheCacheOfRegistriesKeepsNoLargePods(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", UID: "1", Labels: map[string]string{names.LabelCatalogSource: "c"}, Annotations: map[string]string{"a": "b"},
		OwnerReferences: make([]metav1.OwnerReference, 50_000), Finalizers: make([]string, 50_000),
	}}
	pod.Spec.Containers = make([]corev1.Container, 10_000)
	pod.Spec.Containers[0] = corev1.Container{Name: "registry", Image: "r.example.com/c@sha256:1", Env: make([]corev1.EnvVar, 10)}
	pod.Spec.Volumes = make([]corev1.Volume, 10_000)
	pod.Status = corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	status := pod.Status.DeepCopy()
	got, err := stripRegistry(pod)
	require.NoError(t, err)
	kept, ok := got.(*corev1.Pod)
	require.True(t, ok)
	require.Less(t, sizes.Of(kept).Memory, int64(32<<10))
	require.False(t, server.RunsByTag(kept))
	require.True(t, server.IsReady(kept))
	require.Equal(t, *status, kept.Status)
	require.Equal(t, "c", kept.Labels[names.LabelCatalogSource])
	tombstone := toolscache.DeletedFinalStateUnknown{Key: "x"}
	got, err = stripRegistry(tombstone)
	require.NoError(t, err)
	require.Equal(t, tombstone, got)
}
