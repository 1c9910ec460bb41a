package scopedcache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// A stream can end just when the last event of its initial list is received. The reflector then stores the list, reads the rest
// of the stream, and resumes after that.
func TestEventsBetweenTheEndOfAWatchAndTheNextAreNotLost(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	feed.opens(true)
	feed.stream.Stop()
	require.NoError(t, f.secrets.listed(feed, []any{secretAt("a", "10"), secretAt("b", "11")}, "20"))
	require.Equal(t, Syncing, f.Status(ownerOf("o"))[0].State)
	feed.sees(t, secretAt("c", "21"))
	feed.seesDeleted(t, secretAt("b", "22"))
	feed.opens(false)
	require.Equal(t, Live, f.Status(ownerOf("o"))[0].State)
	require.ElementsMatch(t, []string{"add a 10", "add c 21"}, f.received())
}

// An initial list may never end although data is received, for example if a proxy drops the bookmarks of a busy kind.
func TestTheDurationOfAnInitialListIsLimited(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	opened := feed.opens(true)
	begin := func(ago time.Duration) {
		feed.stream.mu.Lock()
		feed.stream.begun = time.Now().Add(-ago)
		feed.stream.mu.Unlock()
		feed.stream.arrived()
	}
	limits := feed.stream.limits
	begin(limits.request - 5*time.Second)
	<-time.After(time.Second)
	require.False(t, opened.IsStopped())
	begin(limits.request)
	require.Eventually(t, opened.IsStopped, limits.silence/2, 10*time.Millisecond)
	status := f.Status(ownerOf("o"))[0]
	require.Equal(t, Backoff, status.State)
	require.Equal(t, errStalled.Error(), status.Reason)
}

// The limits of an initial list no longer apply once the list is complete.
func TestAWatchMayBeSilentAfterItsInitialList(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(o *Options) { o.RecheckPeriod = -1 })
	feed := f.claim("o", Namespace("x"))
	opened := feed.opens(true)
	feed.lists(t, "10")
	feed.stream.stalled() // the timer can fire at the same time
	feed.stream.arrived()
	require.False(t, opened.IsStopped())
	require.Equal(t, Live, f.Status(ownerOf("o"))[0].State)
}

// Parts of a response can be received before the watch is open, and after it has ended.
func TestResponseDataCanBeReceivedAtAnyTime(t *testing.T) {
	t.Parallel()
	s := newStream(defaultLimits(), func(*stream) { t.Error("the stream ended the watch itself") })
	s.arrived()
	s.open(watch.NewRaceFreeFake(), metav1.ListOptions{SendInitialEvents: ptr.To(true)})
	s.Stop()
	s.begun = time.Now().Add(-s.limits.request)
	s.arrived()
	<-time.After(100 * time.Millisecond)
}
