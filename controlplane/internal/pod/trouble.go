package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Faults that a Pod may request by annotation; see the package doc.
const (
	annotationStartAfter = "standin.test/start-after"
	annotationReady      = "standin.test/ready"
	annotationLost       = "standin.test/lost"
)

const (
	reasonEvicted  = "Evicted"
	messageEvicted = "Requested by annotation " + annotationLost + "."
)

// startAfter returns how long a simulated container runs before it is ready.
func startAfter(pod *corev1.Pod) time.Duration {
	delay, err := time.ParseDuration(pod.Annotations[annotationStartAfter])
	if err != nil {
		return 0
	}
	return delay
}

// mayBeReady reports whether simulated containers may become ready.
func mayBeReady(pod *corev1.Pod) bool { return pod.Annotations[annotationReady] != "false" }

// isLost reports whether the Pod must end as if it were evicted.
func isLost(pod *corev1.Pod) bool { return pod.Annotations[annotationLost] == "true" }
