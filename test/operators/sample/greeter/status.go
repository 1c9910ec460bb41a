package greeter

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplev1 "github.com/remit-olm/remit/test/operators/sample/api/v1"
)

// setStatus sets the greeting's status from the last observed state of its Deployment.
func setStatus(greeting *samplev1.Greeting, deployment *appsv1.Deployment) {
	ready := metav1.Condition{
		Type:               samplev1.ConditionReady,
		Status:             metav1.ConditionFalse,
		Reason:             samplev1.ReasonGreetersStarting,
		Message:            fmt.Sprintf("%d of %d greeters are available", deployment.Status.AvailableReplicas, greeting.Spec.Replicas),
		ObservedGeneration: greeting.Generation,
	}
	if available(deployment, greeting.Spec.Replicas) {
		ready.Status = metav1.ConditionTrue
		ready.Reason = samplev1.ReasonGreeting
	}
	greeting.Status.ObservedGeneration = greeting.Generation
	greeting.Status.ConfigMapName = configMapName(greeting)
	meta.SetStatusCondition(&greeting.Status.Conditions, ready)
}

// available reports whether enough replicas are available. It returns false while the Deployment's status refers to an
// earlier spec.
func available(deployment *appsv1.Deployment, replicas int32) bool {
	return deployment.Generation > 0 &&
		deployment.Status.ObservedGeneration >= deployment.Generation &&
		deployment.Status.AvailableReplicas >= replicas
}
