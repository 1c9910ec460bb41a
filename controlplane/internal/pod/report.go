package pod

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

const (
	reportTimeout = 10 * time.Second
	reportRetry   = time.Second
)

// touch requests a report; further requests while one is pending are merged with it.
func (w *Worker) touch() {
	select {
	case w.touched <- struct{}{}:
	default:
	}
}

// report writes the status whenever something has changed, until the context is done.
func (w *Worker) report(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.touched:
		}
		if w.reportOnce(ctx) || ctx.Err() != nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reportRetry):
			w.touch()
		}
	}
}

// reportOnce patches the status. It returns false if it must be called again. The UID in the patch is a precondition
// that protects a later Pod of the same name. Conditions are merged by type, so those of other controllers (readiness
// gates) are kept.
//
// After Shutdown, it sends nothing, so that the API still reports the Pod as running, and the next start runs it again.
// This is checked after the status was read: a status in which the shutdown has ended a process is never sent. An end that was not
// reported before is also lost.
func (w *Worker) reportOnce(ctx context.Context) bool {
	pod := w.Pod()
	status := w.status(pod)
	if w.isShutdown() || same(pod.Status, status) {
		return true
	}
	patch, err := statusPatch(pod.UID, status)
	if err != nil {
		klog.ErrorS(err, "Failed to encode the status of Pod", "pod", klog.KObj(pod))
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	_, err = w.host.Client.CoreV1().Pods(pod.Namespace).Patch(
		ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true // deleted, or replaced by another Pod of this name
	}
	klog.V(1).InfoS("Failed to report the status of Pod", "pod", klog.KObj(pod), "err", err)
	return false
}

// statusPatch encodes a strategic merge patch of a Pod's status. Conditions are merged field by field, so an empty
// field must be sent as an explicit null; otherwise, the reason for the last failure would remain. The addresses replace
// those of an earlier run with another network. If they were merged, the API server would reject two addresses of one family.
func statusPatch(uid types.UID, status corev1.PodStatus) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, err
	}
	conditions, _ := content["conditions"].([]any)
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		for _, name := range []string{"reason", "message", "lastProbeTime"} {
			if value, ok := fields[name]; !ok || value == "" {
				fields[name] = nil
			}
		}
	}
	for _, name := range []string{"podIPs", "hostIPs"} {
		addresses, _ := content[name].([]any)
		content[name] = append([]any{map[string]any{"$patch": "replace"}}, addresses...)
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": content})
}

func (w *Worker) status(pod *corev1.Pod) corev1.PodStatus {
	v := view{pod: pod, podIP: w.ip.String(), hostIP: w.host.Net.NodeAddr().String(), now: metav1.Now()}
	for _, r := range w.init {
		s := r.state.get()
		s.Ready = s.Ready || (s.State.Terminated != nil && s.State.Terminated.ExitCode == 0)
		v.init = append(v.init, s)
	}
	for _, r := range w.main {
		v.main = append(v.main, r.state.get())
	}
	return v.status()
}

// same reports whether two statuses are equal as the API stores them, that is, with times in whole seconds.
func same(old, new corev1.PodStatus) bool {
	if old.Phase != new.Phase || old.PodIP != new.PodIP || old.HostIP != new.HostIP || old.ObservedGeneration != new.ObservedGeneration {
		return false
	}
	if !sameJSON(old.ContainerStatuses, new.ContainerStatuses) || !sameJSON(old.InitContainerStatuses, new.InitContainerStatuses) {
		return false
	}
	for _, n := range new.Conditions {
		if !slices.ContainsFunc(old.Conditions, func(o corev1.PodCondition) bool {
			return o.Type == n.Type && o.Status == n.Status && o.Reason == n.Reason && o.Message == n.Message
		}) {
			return false
		}
	}
	return true
}

func sameJSON(a, b []corev1.ContainerStatus) bool {
	left, errA := json.Marshal(a)
	right, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(left) == string(right)
}
