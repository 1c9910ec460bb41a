package clusterextension

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
)

func TestTheProgressDeadline(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Now())
	ext := &olmv1.ClusterExtension{}
	ext.Generation = 2
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "op.v1"}}
	begin := func() *run {
		return &run{
			Reconciler: &Reconciler{Options: Options{Clock: clock}}, saved: ext.DeepCopy(), ext: ext, pass: &pass{begun: clock.Now()},
			bundle: &bundle.Bundle{CSV: csv},
		}
	}
	s := begin()
	about := s.aboutRollout("waits")
	require.Equal(t, olmv1.ReasonRollingOut, s.withDeadline(rolling(about)).progressing.Reason)
	require.Zero(t, s.after, "there is no deadline")
	ext.Spec.ProgressDeadlineMinutes = 10
	require.Equal(t, olmv1.ReasonRollingOut, s.withDeadline(rolling(about)).progressing.Reason)
	require.Equal(t, 10*time.Minute, s.after)
	clock.SetTime(clock.Now().Add(10 * time.Minute))
	out := s.withDeadline(rolling(about))
	require.Equal(t, metav1.Condition{Status: metav1.ConditionFalse, Reason: olmv1.ReasonProgressDeadlineExceeded}, out.progressing)
	require.EqualValues(t, about+"; the deadline of 10 minutes has passed", out.message)

	s.setCondition(olmv1.TypeProgressing, out.progressing.Status, out.progressing.Reason, out.message)
	require.Equal(t, olmv1.ReasonProgressDeadlineExceeded, begin().withDeadline(rolling(about)).progressing.Reason, "the deadline had passed before a restart")
	require.True(t, begin().begunBefore(), "the next attempt does not report the beginning of the rollout again")
	csv.Name = "op.v2"
	require.Equal(t, olmv1.ReasonRollingOut, begin().withDeadline(rolling(about)).progressing.Reason, "another version is being rolled out")
	require.False(t, begin().begunBefore())
	csv.Name = "op.v1"
	ext.Generation = 3
	require.Equal(t, olmv1.ReasonRollingOut, begin().withDeadline(rolling(about)).progressing.Reason, "the spec has changed since")
}
