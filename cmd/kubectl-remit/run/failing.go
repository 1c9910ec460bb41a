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
	// maxFailing is how many Pods the demonstration shows when it gives up, tailLines how much of each container's log.
	maxFailing = 5
	tailLines  = 10
	// showTimeout bounds the looking.
	showTimeout = 10 * time.Second
)

// try does what show does. When that gives up, it prints the last log lines of the Pods that are not ready: what went wrong is
// mostly said there.
func (d *demo) try(ctx context.Context, show func(context.Context) error) error {
	err := show(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted")
	case d.cluster != nil:
		d.showFailing()
	}
	return err
}

// showFailing has a time of its own. What cannot be read is left out: there is an error to return already.
func (d *demo) showFailing() {
	ctx, cancel := context.WithTimeout(context.Background(), showTimeout)
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
			d.progress.say("\nPod %s/%s, container %s, is not ready%s. Its last lines:", pod.Namespace, pod.Name, status.Name, why(status))
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

// why is what the node says of a container, in brackets.
func why(status corev1.ContainerStatus) string {
	if w := status.State.Waiting; w != nil && w.Reason != "" {
		return fmt.Sprintf(" (%s, %d restarts)", w.Reason, status.RestartCount)
	}
	return ""
}
