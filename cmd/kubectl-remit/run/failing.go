package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	// maxFailing is the maximum number of Pods that are shown after a failure. tailLines is the number of log lines shown
	// for each container.
	maxFailing = 5
	tailLines  = 10
	// showTimeout is the timeout for reading the Pods and logs.
	showTimeout = 10 * time.Second
)

// try runs show. If show fails, try prints the last log lines of the Pods that are not ready, which usually explain the
// failure.
func (d *demo) try(ctx context.Context, show func(context.Context) error) error {
	err := show(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted")
	case d.cluster != nil:
		d.showFailing(ctx)
	}
	return err
}

// showFailing prints the last log lines of the Pods that are not ready. It has its own timeout. It ignores errors,
// because try already returns one.
func (d *demo) showFailing(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), showTimeout)
	defer cancel()
	c, err := kubernetes.NewForConfig(d.cluster.Config())
	if err != nil {
		return
	}
	pods, err := c.CoreV1().Pods(corev1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	failing := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded || isReady(&p) })
	for i := range failing[:min(len(failing), maxFailing)] {
		pod := &failing[i]
		for _, status := range pod.Status.ContainerStatuses {
			d.progress.say("\nPod %s/%s, container %s, is not ready%s. Its last log lines:", pod.Namespace, pod.Name, status.Name, why(status))
			log, err := c.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
				Container: status.Name, TailLines: ptr.To(int64(tailLines)),
			}).DoRaw(ctx)
			if err != nil {
				log = []byte("(none: " + err.Error() + ")")
			}
			d.progress.quote(string(log))
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// why returns the container's waiting reason and restart count in parentheses, or "" if the container is not waiting.
func why(status corev1.ContainerStatus) string {
	if w := status.State.Waiting; w != nil && w.Reason != "" {
		return fmt.Sprintf(" (%s, %d restarts)", w.Reason, status.RestartCount)
	}
	return ""
}
