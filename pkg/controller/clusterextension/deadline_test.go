package clusterextension

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	olmv1 "github.com/remit-olm/remit/api/v1"
)

func TestTheProgressDeadline(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Now())
	ext := &olmv1.ClusterExtension{}
	ext.Generation = 2
	begin := func() *run {
		return &run{Reconciler: &Reconciler{Options: Options{Clock: clock}}, saved: ext.DeepCopy(), ext: ext, pass: &pass{begun: clock.Now()}}
	}
	s := begin()
	require.Equal(t, olmv1.ReasonRollingOut, s.withDeadline(rolling("waits")).progressing.Reason)
	require.Zero(t, s.after, "there is no deadline")
	ext.Spec.ProgressDeadlineMinutes = 10
	require.Equal(t, olmv1.ReasonRollingOut, s.withDeadline(rolling("waits")).progressing.Reason)
	require.Equal(t, 10*time.Minute, s.after)
	clock.SetTime(clock.Now().Add(10 * time.Minute))
	out := s.withDeadline(rolling("waits"))
	require.Equal(t, metav1.Condition{Status: metav1.ConditionFalse, Reason: olmv1.ReasonProgressDeadlineExceeded, Message: "waits; the deadline of 10 minutes has passed"}, out.progressing)

	s.setCondition(olmv1.TypeProgressing, out.progressing.Status, out.progressing.Reason, "")
	require.Equal(t, olmv1.ReasonProgressDeadlineExceeded, begin().withDeadline(rolling("waits")).progressing.Reason, "it has passed before a restart")
	ext.Generation = 3
	require.Equal(t, olmv1.ReasonRollingOut, begin().withDeadline(rolling("waits")).progressing.Reason, "the spec has changed since")
}
