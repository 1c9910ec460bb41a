package operator

import (
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/status"
)

// conditionsOf returns the conditions of an object in the format of Operators, or nil for kinds without conditions. For a
// ClusterServiceVersion, it returns the phase, because the status contains a history of phases instead of conditions.
func conditionsOf(obj client.Object) []operatorsv1.Condition {
	switch o := obj.(type) {
	case *operatorsv1alpha1.ClusterServiceVersion:
		s := &o.Status
		return []operatorsv1.Condition{{Type: operatorsv1.ConditionType(s.Phase), Status: corev1.ConditionTrue, Reason: string(s.Reason), Message: status.Text(s.Message),
			LastUpdateTime: s.LastUpdateTime, LastTransitionTime: s.LastTransitionTime}}
	case *operatorsv1alpha1.Subscription:
		return convert(o.Status.Conditions, func(c operatorsv1alpha1.SubscriptionCondition) operatorsv1.Condition {
			return operatorsv1.Condition{Type: operatorsv1.ConditionType(c.Type), Status: c.Status, Reason: c.Reason, Message: status.Text(c.Message),
				LastUpdateTime: c.LastHeartbeatTime, LastTransitionTime: c.LastTransitionTime}
		})
	case *operatorsv1alpha1.InstallPlan:
		return convert(o.Status.Conditions, func(c operatorsv1alpha1.InstallPlanCondition) operatorsv1.Condition {
			return operatorsv1.Condition{Type: operatorsv1.ConditionType(c.Type), Status: c.Status, Reason: string(c.Reason), Message: status.Text(c.Message),
				LastUpdateTime: c.LastUpdateTime, LastTransitionTime: c.LastTransitionTime}
		})
	case *operatorsv2.OperatorCondition:
		return convert(o.Status.Conditions, func(c metav1.Condition) operatorsv1.Condition {
			return operatorsv1.Condition{Type: operatorsv1.ConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: status.Text(c.Message),
				LastTransitionTime: &c.LastTransitionTime}
		})
	case *appsv1.Deployment:
		return convert(o.Status.Conditions, func(c appsv1.DeploymentCondition) operatorsv1.Condition {
			return operatorsv1.Condition{Type: operatorsv1.ConditionType(c.Type), Status: c.Status, Reason: c.Reason, Message: status.Text(c.Message),
				LastUpdateTime: &c.LastUpdateTime, LastTransitionTime: &c.LastTransitionTime}
		})
	case *apiextensionsv1.CustomResourceDefinition:
		return convert(o.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) operatorsv1.Condition {
			return operatorsv1.Condition{Type: operatorsv1.ConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: status.Text(c.Message),
				LastTransitionTime: &c.LastTransitionTime}
		})
	case *apiregistrationv1.APIService:
		return convert(o.Status.Conditions, func(c apiregistrationv1.APIServiceCondition) operatorsv1.Condition {
			return operatorsv1.Condition{Type: operatorsv1.ConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: status.Text(c.Message),
				LastTransitionTime: &c.LastTransitionTime}
		})
	}
	return nil
}

func convert[T any](in []T, to func(T) operatorsv1.Condition) []operatorsv1.Condition {
	out := make([]operatorsv1.Condition, 0, len(in))
	for _, c := range in {
		out = append(out, to(c))
	}
	return out
}

// known returns nil for a time that is not set.
func known(t *metav1.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return t
}
