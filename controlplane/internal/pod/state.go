package pod

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Reasons as the kubelet writes them.
const (
	reasonCreating    = "ContainerCreating"
	reasonInitialize  = "PodInitializing"
	reasonConfigError = "CreateContainerConfigError"
	reasonCrashLoop   = "CrashLoopBackOff"
	reasonCompleted   = "Completed"
	reasonError       = "Error"
	reasonStartError  = "StartError"
)

// state is the status of one container: written by its runner and probes, read for the Pod's status.
type state struct {
	changed func()

	mu     sync.Mutex
	status corev1.ContainerStatus
}

// newState returns the state of a container. It continues from the status that an earlier run of this node reported,
// because restarts are counted over the whole life of the Pod.
func newState(c *corev1.Container, before []corev1.ContainerStatus, reason string, changed func()) *state {
	s := &state{changed: changed, status: corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: c.Image, Started: ptr.To(false),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}}
	for _, b := range before {
		if b.Name == c.Name {
			s.status.RestartCount, s.status.LastTerminationState = b.RestartCount, b.LastTerminationState
			if b.ContainerID != "" {
				s.status.ContainerID = b.ContainerID
			}
		}
	}
	return s
}

func (s *state) get() corev1.ContainerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.status.DeepCopy()
}

func (s *state) set(change func(*corev1.ContainerStatus)) {
	s.mu.Lock()
	before := s.status.DeepCopy()
	change(&s.status)
	same := equality.Semantic.DeepEqual(before, &s.status)
	s.mu.Unlock()
	if !same {
		s.changed()
	}
}

func (s *state) waiting(reason, message string) {
	s.set(func(c *corev1.ContainerStatus) {
		c.Ready, c.Started = false, ptr.To(false)
		c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

func (s *state) running(id string) {
	s.set(func(c *corev1.ContainerStatus) {
		c.ContainerID = id
		c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	})
}

// pretended sets a simulated container to running. The start time is the time of the first call.
func (s *state) pretended(uid string, ready bool) {
	s.set(func(c *corev1.ContainerStatus) {
		if c.ContainerID == "" {
			c.ContainerID = "remit://" + uid + "-" + c.Name
		}
		if c.State.Running == nil {
			c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
		}
		c.Ready, c.Started = ready, ptr.To(true)
	})
}

func (s *state) started() {
	s.set(func(c *corev1.ContainerStatus) { c.Started = ptr.To(true) })
}

// ready sets the readiness of the container. It ignores probe results after the container has ended.
func (s *state) ready(ready bool) {
	s.set(func(c *corev1.ContainerStatus) { c.Ready = ready && c.State.Running != nil })
}

// terminated sets the final state: the container does not run again.
func (s *state) terminated(t *corev1.ContainerStateTerminated) {
	s.set(func(c *corev1.ContainerStatus) {
		c.Started = ptr.To(false)
		// A completed container is ready only if it is an init container, whose readiness means completion.
		c.Ready = false
		t.ContainerID = c.ContainerID
		c.State = corev1.ContainerState{Terminated: t}
	})
}

// crashed sets the state of a container that waits for its next start.
func (s *state) crashed(t *corev1.ContainerStateTerminated, delay time.Duration) {
	s.set(func(c *corev1.ContainerStatus) {
		c.Ready, c.Started = false, ptr.To(false)
		t.ContainerID = c.ContainerID
		c.LastTerminationState = corev1.ContainerState{Terminated: t}
		c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: reasonCrashLoop, Message: "back-off " + delay.String() + " restarting failed container",
		}}
	})
}

func (s *state) restarting() {
	s.set(func(c *corev1.ContainerStatus) { c.RestartCount++ })
}
