package subscription

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Users of a Subscription are told once about the webhooks of its plan.
func TestReportsTheWebhooksOfAPlan(t *testing.T) {
	r := &Reconciler{Options: Options{Clock: testclock.NewFakePassiveClock(time.Now())}}
	sub := &operatorsv1alpha1.Subscription{}
	r.write(sub, given(plan("a.v1", operatorsv1alpha1.InstallPlanPhaseComplete, operatorsv1alpha1.InstallPlanCondition{
		Type: names.ConditionWebhooksIncluded, Status: corev1.ConditionTrue, Reason: names.ReasonWebhooksDeclared, Message: "the plan contains 1 webhook(s)",
	})))
	c, isNew := newWebhooks(&operatorsv1alpha1.SubscriptionStatus{}, &sub.Status)
	require.True(t, isNew)
	require.Equal(t, "the plan contains 1 webhook(s)", c.Message)
	_, isNew = newWebhooks(&sub.Status, sub.Status.DeepCopy())
	require.False(t, isNew)

	r.write(sub, given(plan("a.v2", operatorsv1alpha1.InstallPlanPhaseComplete)))
	require.Equal(t, corev1.ConditionUnknown, sub.Status.GetCondition(typeWebhooksIncluded).Status, "the next version has no webhooks")
}
