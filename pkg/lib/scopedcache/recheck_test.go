package scopedcache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Recheck can be called when a watch has ended and the request for the next one has been sent and possibly authorized.
func TestARecheckBetweenTwoWatchesEndsTheSecond(t *testing.T) {
	t.Parallel()
	f, feed := recheckedBetweenWatches(t)
	second := feed.opens(false)
	require.Eventually(t, second.IsStopped, 10*shortest, 10*time.Millisecond)
	third := feed.opens(false)
	<-time.After(shortest + 100*time.Millisecond)
	require.False(t, third.IsStopped(), "one more request is enough")
	require.Equal(t, Live, f.Status(ownerOf("o"))[0].State)
}

// If a watch that begins with a list is requested after the Recheck, its list may take longer than 1.1 s.
func TestARecheckBetweenTwoWatchesInterruptsNoList(t *testing.T) {
	t.Parallel()
	_, feed := recheckedBetweenWatches(t)
	second := feed.opens(true)
	<-time.After(shortest + 100*time.Millisecond)
	require.False(t, second.IsStopped())
}

// recheckedBetweenWatches returns a Live feed that was rechecked after its watch ended and before the next one opens.
func recheckedBetweenWatches(t *testing.T) (*fake, *feed) {
	t.Helper()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	feed.opens(false)
	feed.lists(t, "10")
	feed.stream.Stop()
	f.Recheck("x")
	return f, feed
}

// The watch is authorized before its list, and a permission can be revoked during the list.
func TestARecheckDuringTheFirstListEndsTheWatchAfterIt(t *testing.T) {
	t.Parallel()
	for name, recheckFirst := range map[string]bool{"before the response": true, "before the list": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(o *Options) { o.RecheckPeriod = -1 })
			feed := f.claim("o", Namespace("x"))
			if recheckFirst {
				f.Recheck("x")
			}
			inner := feed.opens(true)
			if !recheckFirst {
				f.Recheck("x")
			}
			<-time.After(shortest + 100*time.Millisecond)
			require.False(t, inner.IsStopped(), "the list may take longer")
			feed.lists(t, "10")
			require.Eventually(t, inner.IsStopped, 10*shortest, 10*time.Millisecond)
		})
	}
}
