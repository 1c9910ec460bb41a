package subscription

import (
	"errors"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/proofs"
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

// The event reaches users who only watch the Subscription, and is sent once.
func TestAnnouncesTheWebhooksOfAPlanInAnEvent(t *testing.T) {
	sub := subscription("a", operatorsv1alpha1.ApprovalAutomatic)
	c := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(sub).WithStatusSubresource(sub).Build()
	recorder := events.NewFakeRecorder(10)
	r, err := New(Options{Client: c, Live: c, Catalogs: &catalog.Store{}, RBAC: rbac.Unreadable(errors.New("not in this test")),
		Recorder: recorder, Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
	require.NoError(t, err)
	v := given(plan("a.v1", operatorsv1alpha1.InstallPlanPhaseComplete, operatorsv1alpha1.InstallPlanCondition{
		Type: names.ConditionWebhooksIncluded, Status: corev1.ConditionTrue, Reason: names.ReasonWebhooksDeclared, Message: "the plan contains 1 webhook(s)",
	}))
	for range 2 {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
		require.NoError(t, r.save(t.Context(), &world{namespace: "ns"}, sub, v))
	}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
	require.Equal(t, corev1.ConditionTrue, sub.Status.GetCondition(typeWebhooksIncluded).Status)
	require.Len(t, recorder.Events, 1)
	require.Equal(t, "Normal WebhooksIncluded the plan contains 1 webhook(s)", <-recorder.Events)
}

func TestAnnouncesEscalationInAnEvent(t *testing.T) {
	const warning = "Warning: the install grants permissions with which an operator can obtain more permissions than ServiceAccount ns/acct has: x."
	sub := subscription("a", operatorsv1alpha1.ApprovalAutomatic)
	c := fake.NewClientBuilder().WithScheme(proofs.Scheme()).WithObjects(sub).WithStatusSubresource(sub).Build()
	recorder := events.NewFakeRecorder(10)
	r, err := New(Options{Client: c, Live: c, Catalogs: &catalog.Store{}, RBAC: rbac.Unreadable(errors.New("not in this test")),
		Recorder: recorder, Proofs: proofs.Keys(), GlobalCatalogNamespace: "olm"})
	require.NoError(t, err)
	v := given(plan("a.v1", operatorsv1alpha1.InstallPlanPhaseComplete, operatorsv1alpha1.InstallPlanCondition{
		Type: names.ConditionPermissionsMissing, Status: corev1.ConditionFalse, Reason: names.ReasonPermissionsHeld, Message: warning,
	}))
	for range 2 {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sub), sub))
		require.NoError(t, r.save(t.Context(), &world{namespace: "ns"}, sub, v))
	}
	require.Len(t, recorder.Events, 1)
	require.Equal(t, "Warning GrantsEscalation "+warning, <-recorder.Events)
}
