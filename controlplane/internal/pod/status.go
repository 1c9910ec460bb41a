package pod

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// view contains everything from which a Pod's status is computed.
type view struct {
	pod        *corev1.Pod
	podIP      string
	hostIP     string
	init, main []corev1.ContainerStatus
	now        metav1.Time
}

// status computes the Pod's status. It is a pure function of the view.
func (v view) status() corev1.PodStatus {
	s := corev1.PodStatus{
		ObservedGeneration:    v.pod.Generation,
		Phase:                 v.phase(),
		HostIP:                v.hostIP,
		HostIPs:               []corev1.HostIP{{IP: v.hostIP}},
		PodIP:                 v.podIP,
		PodIPs:                []corev1.PodIP{{IP: v.podIP}},
		StartTime:             v.pod.Status.StartTime,
		InitContainerStatuses: v.init,
		ContainerStatuses:     v.main,
	}
	if s.StartTime == nil {
		s.StartTime = &v.now
	}
	if isLost(v.pod) {
		s.Phase, s.Reason, s.Message = corev1.PodFailed, reasonEvicted, messageEvicted
	}
	ready := v.containersReady(s.Phase)
	s.Conditions = []corev1.PodCondition{
		v.condition(corev1.PodReadyToStartContainers, ""),
		v.initialized(s.Phase),
		v.readyToServe(ready),
		ready,
		v.condition(corev1.PodScheduled, ""),
	}
	return s
}

func (v view) phase() corev1.PodPhase {
	if v.initFailed() {
		return corev1.PodFailed
	}
	ended, failed, begun := 0, false, false
	for _, c := range v.main {
		begun = begun || c.State.Running != nil || c.LastTerminationState.Terminated != nil
		if t := c.State.Terminated; t != nil {
			ended, begun, failed = ended+1, true, failed || t.ExitCode != 0
		}
	}
	switch {
	case ended == len(v.main) && failed:
		return corev1.PodFailed
	case ended == len(v.main):
		return corev1.PodSucceeded
	case begun:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// initFailed reports whether an init container has failed. It ignores sidecars, because their exit code does not matter
// when they are stopped at the end.
func (v view) initFailed() bool {
	for i, c := range v.init {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 && !isSidecar(&v.pod.Spec.InitContainers[i]) {
			return true
		}
	}
	return false
}

func (v view) initialized(phase corev1.PodPhase) corev1.PodCondition {
	var waiting []string
	for i, c := range v.init {
		completed := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		sidecar := isSidecar(&v.pod.Spec.InitContainers[i]) && c.Started != nil && *c.Started
		if !completed && !sidecar {
			waiting = append(waiting, c.Name)
		}
	}
	switch {
	case phase == corev1.PodSucceeded:
		return v.condition(corev1.PodInitialized, "PodCompleted")
	case len(waiting) == 0:
		return v.condition(corev1.PodInitialized, "")
	}
	return v.failing(corev1.PodInitialized, "ContainersNotInitialized",
		fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(waiting, " ")))
}

func (v view) containersReady(phase corev1.PodPhase) corev1.PodCondition {
	if phase == corev1.PodSucceeded {
		return v.failing(corev1.ContainersReady, "PodCompleted", "")
	}
	var unready []string
	for _, c := range v.main {
		if !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	if len(unready) > 0 {
		return v.failing(corev1.ContainersReady, "ContainersNotReady",
			fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " ")))
	}
	return v.condition(corev1.ContainersReady, "")
}

// readyToServe returns the Ready condition, which Services and Deployments use. It depends on the containers and on the
// readiness gates.
func (v view) readyToServe(containers corev1.PodCondition) corev1.PodCondition {
	if containers.Status != corev1.ConditionTrue {
		return v.failing(corev1.PodReady, containers.Reason, containers.Message)
	}
	for _, gate := range v.pod.Spec.ReadinessGates {
		if c := v.find(gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return v.failing(corev1.PodReady, "ReadinessGatesNotReady", fmt.Sprintf("condition %q is not True", gate.ConditionType))
		}
	}
	return v.condition(corev1.PodReady, "")
}

func (v view) condition(kind corev1.PodConditionType, reason string) corev1.PodCondition {
	return v.dated(corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason})
}

func (v view) failing(kind corev1.PodConditionType, reason, message string) corev1.PodCondition {
	return v.dated(corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message})
}

// dated sets the time of the condition's last transition, which changes only if the condition's status does.
func (v view) dated(c corev1.PodCondition) corev1.PodCondition {
	c.LastTransitionTime, c.ObservedGeneration = v.now, v.pod.Generation
	if old := v.find(c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

func (v view) find(kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range v.pod.Status.Conditions {
		if v.pod.Status.Conditions[i].Type == kind {
			return &v.pod.Status.Conditions[i]
		}
	}
	return nil
}

// isSidecar reports whether an init container runs alongside the main ones.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
