package node

import (
	"context"
	"fmt"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/controlplane/internal/network"
)

const (
	// leaseSeconds is how long the node-lifecycle controller waits for a heartbeat before it taints the node.
	leaseSeconds = 40
	heartbeat    = 10 * time.Second
)

// Register creates or updates the Node and makes it Ready. Admission adds the not-ready taint to every new Node. Register
// removes the taint immediately instead of waiting for the node-lifecycle controller, which may change the Node at the same time.
func Register(ctx context.Context, client kubernetes.Interface, net network.PodNet) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return register(ctx, client, net) })
}

func register(ctx context.Context, client kubernetes.Interface, net network.PodNet) error {
	nodes := client.CoreV1().Nodes()
	want := desired(net)
	node, err := nodes.Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		node, err = nodes.Get(ctx, Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("create Node: %w", err)
	}
	_, labeled := node.Labels[LabelControlPlane]
	if len(node.Spec.Taints) > 0 || node.Spec.PodCIDR != want.Spec.PodCIDR || !labeled {
		node.Spec.Taints, node.Labels = nil, want.Labels
		if node.Spec.PodCIDR == "" {
			node.Spec.PodCIDR, node.Spec.PodCIDRs = want.Spec.PodCIDR, want.Spec.PodCIDRs
		}
		if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("untaint Node: %w", err)
		}
	}
	node.Status = want.Status
	if _, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update status of Node: %w", err)
	}
	return nil
}

// Heartbeat renews the node's Lease until the context is done. The node-lifecycle controller checks nothing else.
func Heartbeat(ctx context.Context, client kubernetes.Interface) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := renew(ctx, client); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to renew the node's Lease")
		}
	}, heartbeat)
}

func renew(ctx context.Context, client kubernetes.Interface) error {
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := ptr.To(metav1.NowMicro())
	lease, err := leases.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: Name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(Name), LeaseDurationSeconds: ptr.To(int32(leaseSeconds)), RenewTime: now,
			},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// LabelControlPlane is the label that kubeadm and kind set on control plane nodes. Like the node of a single-node kind
// cluster, the stand-in has no taint.
const LabelControlPlane = "node-role.kubernetes.io/control-plane"

func desired(net network.PodNet) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name,
			Labels: map[string]string{
				LabelControlPlane: "", corev1.LabelHostname: Name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
			},
		},
		Spec:   corev1.NodeSpec{PodCIDR: net.CIDR(), PodCIDRs: []string{net.CIDR()}},
		Status: desiredStatus(net),
	}
}

func desiredStatus(net network.PodNet) corev1.NodeStatus {
	plenty := Allocatable()
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return corev1.NodeStatus{
		Capacity:    plenty,
		Allocatable: plenty,
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionTrue, "StandInReady"),
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "StandInHasPlenty"),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "StandInHasPlenty"),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "StandInHasPlenty"),
		},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: net.NodeAddr().String()},
			{Type: corev1.NodeHostName, Address: Name},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: network.KubeletPort}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: version.Get().GitVersion, ContainerRuntimeVersion: "remit://1.0",
			OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, OSImage: "none",
		},
	}
}

// Allocatable returns the node's resources. They exceed what any test requests, because scheduling by resources is out
// of scope.
func Allocatable() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("4Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("4Ti"),
		corev1.ResourcePods:             resource.MustParse("40000"),
	}
}
