package scopedcache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// A Recheck may come when a watch has ended and the next request is on its way, perhaps already authorized.
func TestARecheckBetweenTwoWatchesEndsTheSecond(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	first := f.secrets.opened(feed, watch.NewRaceFreeFake(), metav1.ListOptions{})
	feed.lists(t, "10")
	first.Stop()
	f.Recheck("x")
	inner := watch.NewRaceFreeFake()
	f.secrets.opened(feed, inner, metav1.ListOptions{})
	require.Eventually(t, inner.IsStopped, 10*shortest, 10*time.Millisecond)
	third := watch.NewRaceFreeFake()
	f.secrets.opened(feed, third, metav1.ListOptions{})
	<-time.After(shortest + 100*time.Millisecond)
	require.False(t, third.IsStopped(), "it is checked once")
}

// A watch that begins with a list was requested after the Recheck, and its list may take longer than 1.1 s.
func TestARecheckBetweenTwoWatchesInterruptsNoList(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	first := f.secrets.opened(feed, watch.NewRaceFreeFake(), metav1.ListOptions{})
	feed.lists(t, "10")
	first.Stop()
	f.Recheck("x")
	inner := watch.NewRaceFreeFake()
	f.secrets.opened(feed, inner, metav1.ListOptions{SendInitialEvents: ptr.To(true)})
	<-time.After(shortest + 100*time.Millisecond)
	require.False(t, inner.IsStopped())
}

// The watch is authorized before its list, and a permission may be revoked meanwhile.
func TestARecheckDuringTheFirstListEndsTheWatchAfterIt(t *testing.T) {
	t.Parallel()
	for name, recheckFirst := range map[string]bool{"before the answer": true, "before the list": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, func(o *Options) { o.RecheckPeriod = -1 })
			feed, inner := f.claim("o", Namespace("x")), watch.NewRaceFreeFake()
			if recheckFirst {
				f.Recheck("x")
			}
			f.secrets.opened(feed, inner, metav1.ListOptions{SendInitialEvents: ptr.To(true)})
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
