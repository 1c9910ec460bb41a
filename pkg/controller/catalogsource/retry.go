package catalogsource

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// shortestRetry is the shortest time from a try that failed to the next, whatever happens in between, and the first
// pause after one that somebody asked for: the API server may know of a grant later than we do.
const shortestRetry = time.Second

// retry cuts short the pause after a pull that failed. It is asked by those who know of a change after which the
// pull may come out differently.
type retry chan struct{}

func newRetry() retry { return make(retry, 1) }

// ask never blocks. It counts once, however often it is asked before the next try.
func (r retry) ask() {
	select {
	case r <- struct{}{}:
	default:
	}
}

// begin forgets what was asked before a try.
func (r retry) begin() {
	select {
	case <-r:
	default:
	}
}

// sleep is over after a pause, or after shortestRetry where a try is asked for, which asked says; ok is false where
// ctx has ended.
func (r retry) sleep(ctx context.Context, clock clock.Clock, pause time.Duration) (asked, ok bool) {
	begun := clock.Now()
	if asked, ok = r.until(ctx, clock, pause); !asked {
		return false, ok
	}
	left := shortestRetry - clock.Since(begun)
	if left <= 0 {
		return true, true
	}
	_, ok = retry(nil).until(ctx, clock, left)
	return true, ok
}

// until is sleep without a shortest time. Nobody asks the nil one.
func (r retry) until(ctx context.Context, clock clock.Clock, pause time.Duration) (asked, ok bool) {
	timer := clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C():
		return false, true
	case <-r:
		return true, true
	case <-ctx.Done():
		return false, false
	}
}

// nextPause is the one after one that was asked to end, or was not.
func nextPause(pause time.Duration, asked bool) time.Duration {
	if asked {
		return shortestRetry
	}
	return min(2*pause, lastReload)
}
