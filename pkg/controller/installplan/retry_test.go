package installplan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
