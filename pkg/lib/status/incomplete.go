package status

import (
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// PlanWasIncomplete reports whether the status of a Subscription says that the InstallPlan to which it refers was not complete. The
// InstallPlan may have been deleted since.
func PlanWasIncomplete(st *operatorsv1alpha1.SubscriptionStatus) bool {
	return slices.ContainsFunc([]operatorsv1alpha1.SubscriptionConditionType{
		operatorsv1alpha1.SubscriptionInstallPlanPending, operatorsv1alpha1.SubscriptionInstallPlanFailed, operatorsv1alpha1.SubscriptionInstallPlanMissing,
	}, func(t operatorsv1alpha1.SubscriptionConditionType) bool {
		return st.GetCondition(t).Status == corev1.ConditionTrue
	})
}
