package status

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// PlanWasIncomplete reports whether the status of a Subscription says that the InstallPlan to which it refers was not complete. The
// InstallPlan may have been deleted since. OLM sets InstallPlanMissing whenever it does not find a plan, and deletes old complete plans
// itself, so this condition counts only with the reason that Remit gives.
func PlanWasIncomplete(st *operatorsv1alpha1.SubscriptionStatus) bool {
	for _, c := range st.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == operatorsv1alpha1.SubscriptionInstallPlanPending, c.Type == operatorsv1alpha1.SubscriptionInstallPlanFailed,
			c.Type == operatorsv1alpha1.SubscriptionInstallPlanMissing && c.Reason == names.ReasonPlanIncomplete:
			return true
		}
	}
	return false
}
