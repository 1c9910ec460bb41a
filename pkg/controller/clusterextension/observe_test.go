package clusterextension

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// An object that other clients repeatedly delete is restored at increasing intervals.
func TestPausesBetweenRestorations(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Now())
	s := &run{
		Reconciler: &Reconciler{Options: Options{Clock: clock, Client: fake.NewClientBuilder().Build()}}, ext: &olmv1.ClusterExtension{},
		pass: &pass{marks: map[string]*mark{}}, hashes: map[*unstructured.Unstructured]string{},
	}
	st := step.Step{Object: apply.Reference(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), "ops", "op")}
	restored := func() time.Duration {
		s.mark(st, st.Object, true)
		s.pass.marks[apply.Describe(st.Object)].seen = true
		s.after, s.paused = 0, nil
		isDesired, err := s.isDesired(t.Context(), st.Object)
		require.NoError(t, err)
		require.Equal(t, s.after > 0, isDesired, "the object is restored when the pause is over")
		require.Equal(t, isDesired, len(s.paused) == 1, "the status names the object during the pause")
		return s.after
	}
	require.Zero(t, restored(), "the first restoration is immediate")
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
		require.Equal(t, want, restored())
		clock.SetTime(clock.Now().Add(want))
		isDesired, err := s.isDesired(t.Context(), st.Object)
		require.NoError(t, err)
		require.False(t, isDesired)
	}
	for range 10 {
		clock.SetTime(clock.Now().Add(lastPause))
		require.LessOrEqual(t, restored(), lastPause)
	}
	require.Equal(t, lastPause, restored())
	s.mark(st, st.Object, false)
	require.Equal(t, lastPause, s.pass.marks[apply.Describe(st.Object)].pause, "the object was not restored")
	clock.SetTime(clock.Now().Add(time.Hour))
	require.Zero(t, restored(), "nothing has changed the object for some time")
}
