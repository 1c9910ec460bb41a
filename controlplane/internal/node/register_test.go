package node

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/remit-olm/remit/controlplane/internal/network"
)

// Operators select control plane nodes by the label that kubeadm and kind set.
func TestTheNodeHasTheControlPlaneLabel(t *testing.T) {
	for name, existing := range map[string][]*corev1.Node{
		"new node":      nil,
		"existing node": {{ObjectMeta: metav1.ObjectMeta{Name: Name}}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			for _, node := range existing {
				_, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			require.NoError(t, Register(t.Context(), client, network.PodNet{}))
			node, err := client.CoreV1().Nodes().Get(t.Context(), Name, metav1.GetOptions{})
			require.NoError(t, err)
			require.Contains(t, node.Labels, LabelControlPlane)
			require.Empty(t, node.Spec.Taints)
		})
	}
}

// The node-lifecycle controller changes the Node while it is being registered. A conflict ended the control plane.
func TestAConflictIsResolved(t *testing.T) {
	for _, subresource := range []string{"", "status"} {
		client, conflicts := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Name}}), 0
		client.PrependReactor("update", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetSubresource() != subresource || conflicts > 0 {
				return false, nil, nil
			}
			conflicts++
			return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), Name, errors.New("the object has been modified"))
		})
		require.NoError(t, Register(t.Context(), client, network.PodNet{}))
		require.Equal(t, 1, conflicts)
	}
}
