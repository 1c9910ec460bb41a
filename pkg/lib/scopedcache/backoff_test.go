package scopedcache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A request can take a long time to fail, for example if the server is overloaded.
func TestSlowFailuresAlsoBackOff(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	for range mostDoublings {
		longAgo(feed)
		feed.fails()
	}
	longAgo(feed)
	require.GreaterOrEqual(t, feed.fails(), f.options.Retry.Max/2)
}

func TestBackoffIsResetAfterALongWatch(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	feed := f.claim("o", Namespace("x"))
	for range mostDoublings {
		feed.fails()
	}
	feed.lists(t, "10")
	require.GreaterOrEqual(t, feed.fails(), f.options.Retry.Max/2, "it was Live only briefly")
	feed.lists(t, "20")
	longAgo(feed)
	require.LessOrEqual(t, feed.fails(), f.options.Retry.Initial)
}

// longAgo changes the time at which a feed entered its state to an earlier one.
func longAgo(f *feed) {
	f.kind.mu.Lock()
	defer f.kind.mu.Unlock()
	f.since = f.since.Add(-time.Hour)
}
