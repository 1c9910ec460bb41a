package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The trouble that a Pod may ask for by its annotations; see the package doc.
const (
	annotationStartAfter = "standin.test/start-after"
	annotationReady      = "standin.test/ready"
	annotationLost       = "standin.test/lost"
)

const (
	reasonEvicted  = "Evicted"
	messageEvicted = "The annotation " + annotationLost + " asks for it."
)

// startAfter is how long a pretended container runs before it is ready.
func startAfter(pod *corev1.Pod) time.Duration {
	delay, err := time.ParseDuration(pod.Annotations[annotationStartAfter])
	if err != nil {
		return 0
	}
	return delay
}

// isReadyAsked reports whether pretended containers may be ready.
func isReadyAsked(pod *corev1.Pod) bool { return pod.Annotations[annotationReady] != "false" }

// isLost reports whether the Pod is to end as if it was evicted.
func isLost(pod *corev1.Pod) bool { return pod.Annotations[annotationLost] == "true" }
