package installplan

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestRetriesARefusalWithGrowingDelays(t *testing.T) {
	m, key := &memory{}, types.NamespacedName{Namespace: "ns", Name: "p"}
	delays := func(n int) (out []time.Duration) {
		for range n {
			out = append(out, m.next(key))
		}
		return out
	}
	require.Equal(t, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}, delays(3))
	require.Equal(t, maxRetryDelay, delays(10)[9])
	m.passed(key)
	require.Equal(t, []time.Duration{minRetryDelay}, delays(1), "another outcome resets the delay")
}

// Regression test: a plan whose message differs each time, for example one from a webhook, was reconciled in an endless
// loop.
func TestOwnStatusDoesNotWakeAPlan(t *testing.T) {
	m, key := &memory{}, types.NamespacedName{Namespace: "ns", Name: "p"}
	before := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Generation: 1, ResourceVersion: "1"}}
	change := func(edit func(*operatorsv1alpha1.InstallPlan)) *operatorsv1alpha1.InstallPlan {
		after := before.DeepCopy()
		after.ResourceVersion = "2"
		after.Status.Message = "refused"
		edit(after)
		return after
	}
	passes := func(after client.Object) bool {
		return m.othersChanges().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	own := change(func(*operatorsv1alpha1.InstallPlan) {})
	require.True(t, passes(own), "the writer of the status is unknown")
	require.NoError(t, m.writes(key, own))
	require.False(t, passes(own))
	for name, edit := range map[string]func(*operatorsv1alpha1.InstallPlan){
		"another status": func(ip *operatorsv1alpha1.InstallPlan) { ip.Status.Phase = operatorsv1alpha1.InstallPlanPhaseComplete },
		"approval":       func(ip *operatorsv1alpha1.InstallPlan) { ip.Generation, ip.Spec.Approved = 2, true },
		"annotations":    func(ip *operatorsv1alpha1.InstallPlan) { ip.Annotations = map[string]string{"a": "b"} },
		"labels":         func(ip *operatorsv1alpha1.InstallPlan) { ip.Labels = map[string]string{"a": "b"} },
		"deletion":       func(ip *operatorsv1alpha1.InstallPlan) { ip.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"recreated":      func(ip *operatorsv1alpha1.InstallPlan) { ip.UID = "v" },
	} {
		require.True(t, passes(change(edit)), name)
	}
}

// Regression test: the preflight resets a finding from the last dry run until the next dry run reports it again, which
// must not cause an endless loop.
func TestARestoredConditionKeepsItsTimes(t *testing.T) {
	s, _, clock := newRun("")
	s.setCondition(typeObjectsRefused, corev1.ConditionTrue, names.ReasonRefusedByAPIServer, "quota")
	s.setCondition(typePermissionsMissing, corev1.ConditionTrue, names.ReasonAccountLacksPermissions, "one")
	s.saved = s.plan.DeepCopy()
	clock.SetTime(clock.Now().Add(time.Hour))
	s.setCondition(typeObjectsRefused, corev1.ConditionUnknown, names.ReasonNotTried, "")
	s.setCondition(typeObjectsRefused, corev1.ConditionTrue, names.ReasonRefusedByAPIServer, "quota")
	s.keepTimes()
	require.Equal(t, s.saved.Status, s.plan.Status)

	s.setCondition(typePermissionsMissing, corev1.ConditionFalse, names.ReasonPermissionsHeld, "")
	s.setCondition(typePermissionsMissing, corev1.ConditionTrue, names.ReasonAccountLacksPermissions, "another")
	s.keepTimes()
	was, is := s.saved.Status.GetCondition(typePermissionsMissing), s.plan.Status.GetCondition(typePermissionsMissing)
	require.Equal(t, was.LastTransitionTime, is.LastTransitionTime, "the condition's status did not change")
	require.NotEqual(t, was.LastUpdateTime, is.LastUpdateTime)
}
