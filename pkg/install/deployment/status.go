package deployment

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/lib/status"
)

// progressDeadlineExceeded is a reason that the Deployment controller sets.
const progressDeadlineExceeded = "ProgressDeadlineExceeded"

// Progress describes whether a Deployment is ready and, if it is not, why.
type Progress struct {
	Ready bool
	// Stuck is true if the Deployment has exceeded its progress deadline.
	Stuck bool
	// Text is the message for users, as the contract specifies.
	Text string
}

// Status evaluates a Deployment's status. The Deployment is ready while its controller reports it as available, even
// if maxUnavailable allows some replicas to be missing, as long as at least one is available and none is outdated.
// wanted is the number of replicas in the ClusterServiceVersion; nil means 1.
func Status(d *appsv1.Deployment, wanted *int32) Progress {
	s := d.Status
	if d.Generation > s.ObservedGeneration {
		return Progress{Text: fmt.Sprintf("waiting for spec update of deployment %q to be observed...", d.Name)}
	}
	if want := ptr.Deref(wanted, 1); ptr.Deref(d.Spec.Replicas, 1) == 0 && want > 0 {
		return Progress{Text: fmt.Sprintf("deployment %q is scaled to 0 replicas; to scale it up, run: kubectl scale deployment %s -n %s --replicas=%d", d.Name, d.Name, d.Namespace, want)}
	}
	problem, refusal := unavailable(d), refusal(d)
	if problem == "" {
		return Progress{Ready: true, Text: fmt.Sprintf("deployment %q is up-to-date and available", d.Name)}
	}
	if c := condition(d, appsv1.DeploymentProgressing); c != nil && c.Reason == progressDeadlineExceeded {
		return Progress{Stuck: true, Text: fmt.Sprintf("deployment %q exceeded its progress deadline%s", d.Name, refusal)}
	}
	return Progress{Text: problem + refusal}
}

// refusal returns why the API server refuses the Pods of a Deployment, for example because of a quota or Pod Security, as the
// end of a message; or "".
func refusal(d *appsv1.Deployment) string {
	if c := condition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		return "; its Pods cannot be created: " + status.OneLine(c.Message)
	}
	return ""
}

// unavailable returns why a Deployment is not available, or "".
func unavailable(d *appsv1.Deployment) string {
	s := d.Status
	if s.Replicas > s.UpdatedReplicas {
		return fmt.Sprintf("deployment %q waiting for %d outdated replica(s) to be terminated", d.Name, s.Replicas-s.UpdatedReplicas)
	}
	c := condition(d, appsv1.DeploymentAvailable)
	switch {
	case c == nil:
		return fmt.Sprintf("deployment %q not available: missing condition", d.Name)
	case c.Status != corev1.ConditionTrue:
		return fmt.Sprintf("deployment %q not available: %s", d.Name, c.Message)
	case s.AvailableReplicas == 0 && ptr.Deref(d.Spec.Replicas, 1) > 0:
		return fmt.Sprintf("deployment %q not available: no replica is available", d.Name) // maxUnavailable may allow zero available replicas
	}
	return ""
}

func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}
