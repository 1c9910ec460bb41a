package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestRecognizesAVersionWhoseStatusWasReplaced(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	c := fake.NewClientBuilder().WithObjects(node).WithStatusSubresource(node).Build()
	var r Replaced
	require.False(t, r.Has(node))
	require.NoError(t, c.Get(t.Context(), types.NamespacedName{Name: "n"}, node))
	old := node.DeepCopy()

	require.NoError(t, r.Patch(t.Context(), c, node, node.DeepCopy()))
	require.False(t, r.Has(old), "nothing was written")

	after := node.DeepCopy()
	after.Status.Phase = corev1.NodeRunning
	require.NoError(t, r.Patch(t.Context(), c, node, after))
	require.True(t, r.Has(old))
	require.True(t, r.Has(old))
	require.False(t, r.Has(after), "the cache has caught up")
	require.False(t, r.Has(old))

	later := after.DeepCopy()
	later.Status.Phase = corev1.NodePending
	require.NoError(t, r.Patch(t.Context(), c, after, later))
	r.ForgetFunc(func(key types.NamespacedName) bool { return key.Name == "n" })
	require.False(t, r.Has(after))
}
