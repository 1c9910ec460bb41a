package deployment

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// progressDeadlineExceeded is the reason that the Deployment controller gives.
const progressDeadlineExceeded = "ProgressDeadlineExceeded"

// Progress is how a Deployment fares.
type Progress struct {
	Ready bool
	// Stuck says that it passed its own progress deadline.
	Stuck bool
	// Text is for people, in the contract's words.
	Text string
}

// Status reads a Deployment's status.
func Status(d *appsv1.Deployment) Progress {
	s := d.Status
	if d.Generation > s.ObservedGeneration {
		return waiting("waiting for spec update of deployment %q to be observed...", d.Name)
	}
	if c := condition(d, appsv1.DeploymentProgressing); c != nil && c.Reason == progressDeadlineExceeded {
		return Progress{Stuck: true, Text: fmt.Sprintf("deployment %q exceeded its progress deadline", d.Name)}
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	if s.Replicas > s.UpdatedReplicas {
		return waiting("deployment %q waiting for %d outdated replica(s) to be terminated", d.Name, s.Replicas-s.UpdatedReplicas)
	}
	if c := condition(d, appsv1.DeploymentAvailable); c == nil {
		return waiting("deployment %q not available: missing condition", d.Name)
	} else if c.Status != corev1.ConditionTrue {
		return waiting("deployment %q not available: %s", d.Name, c.Message)
	}
	if s.UpdatedReplicas < want {
		return waiting("deployment %q not available: %d of %d replicas are updated", d.Name, s.UpdatedReplicas, want)
	}
	if s.AvailableReplicas < want {
		return waiting("deployment %q not available: %d of %d updated replicas are available", d.Name, s.AvailableReplicas, want)
	}
	return Progress{Ready: true, Text: fmt.Sprintf("deployment %q is up-to-date and available", d.Name)}
}

func waiting(format string, args ...any) Progress {
	return Progress{Text: fmt.Sprintf(format, args...)}
}

func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}
