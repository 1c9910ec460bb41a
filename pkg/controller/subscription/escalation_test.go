package subscription

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// The condition is False if the account has the permissions, so an event tells users of the Subscription once.
func TestReportsEscalationInAnEvent(t *testing.T) {
	bind := []rbacv1.PolicyRule{{Verbs: []string{"bind"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}}}
	warning := preflight.Examine(scoped.Account{Namespace: "ns", Name: "acct"}.Identity(),
		[]preflight.Need{{Namespace: "ns", Granted: true, Rules: bind, Cause: "grant the rules of Role ns/x"}},
		func(string) rbac.Permissions { return rbac.Permissions{Rules: bind} }).Escalation()
	require.NotEmpty(t, warning)
	r := &Reconciler{Options: Options{Clock: testclock.NewFakePassiveClock(time.Now())}}
	sub := &operatorsv1alpha1.Subscription{}
	write := func(csv, message string) {
		r.write(sub, given(plan(csv, operatorsv1alpha1.InstallPlanPhaseComplete, operatorsv1alpha1.InstallPlanCondition{
			Type: names.ConditionPermissionsMissing, Status: corev1.ConditionFalse, Reason: names.ReasonPermissionsHeld, Message: message,
		})))
	}
	write("a.v1", "")
	require.Empty(t, newEscalation(&operatorsv1alpha1.SubscriptionStatus{}, &sub.Status))
	before := sub.Status.DeepCopy()
	write("a.v1", string(warning)+"\na.v1 requests different permissions than a.v0")
	require.Equal(t, string(warning), newEscalation(before, &sub.Status))
	require.Empty(t, newEscalation(sub.Status.DeepCopy(), &sub.Status), "the status contains the warning already")
}
