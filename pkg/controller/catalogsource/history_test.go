package catalogsource

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestReplacesShortLivedPodsWithBackoff(t *testing.T) {
	h, at := &history{}, now.Time
	made := func() (wait time.Duration) {
		hold, again := h.hold("x", nil, at)
		require.Equal(t, again > 0, hold.Serving)
		at = at.Add(again)
		h.recordCreation(&corev1.Pod{}, at)
		return again
	}
	var waits []time.Duration
	for range 9 {
		waits = append(waits, made())
	}
	require.Equal(t, []time.Duration{0, 0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second,
		lastReload, lastReload}, waits)
	at = at.Add(goodRun)
	require.Zero(t, made(), "the last Pod ran long enough")
	require.Zero(t, made())
	require.Equal(t, firstReload, made())
}

func TestRetriesAFailedUpdateAtTheNextPoll(t *testing.T) {
	failed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	first, second := now, metav1.NewTime(now.Add(time.Minute))
	h := &history{}
	h.recordFailure(nil, "x", &first, now.Time)
	require.Empty(t, h.update("x"))
	h.recordFailure(failed, "x", &first, now.Time)
	require.Contains(t, h.update("x"), "update Pod p failed")
	require.Empty(t, h.update("y"), "another image has no failure")
	for _, tt := range []struct {
		hash   string
		polled *metav1.Time
		want   bool
	}{{"x", &first, true}, {"x", &second, false}, {"y", &first, false}} {
		hold, again := h.hold(tt.hash, tt.polled, now.Add(time.Hour))
		require.Equal(t, server.Hold{Update: tt.want}, hold)
		require.Zero(t, again, "a poll triggers the next attempt")
	}

	h.recordFailure(failed, "x", nil, now.Time)
	hold, again := h.hold("x", nil, now.Add(time.Minute))
	require.Equal(t, server.Hold{Update: true}, hold)
	require.Equal(t, lastReload-time.Minute, again, "without polls, the next attempt has a delay")
	hold, again = h.hold("x", nil, now.Add(lastReload))
	require.Equal(t, server.Hold{}, hold)
	require.Zero(t, again)

	h.recordCreation(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{names.LabelCatalogSourceUpdate: "cat"}}}, now.Time)
	require.True(t, h.made.IsZero(), "an update Pod does not serve")
}
