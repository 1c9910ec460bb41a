package catalogsource

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// shortestRetry is the minimum time between a failed attempt and the next one, and the first delay after a requested
// attempt fails: the API server may apply a grant later than the cache shows it.
const shortestRetry = time.Second

// retry interrupts the delay after a failed pull. Callers request it after a change that may affect the pull.
type retry chan struct{}

func newRetry() retry { return make(retry, 1) }

// ask requests an attempt. It never blocks; several requests before the next attempt count once.
func (r retry) ask() {
	select {
	case r <- struct{}{}:
	default:
	}
}

// begin discards requests from before an attempt.
func (r retry) begin() {
	select {
	case <-r:
	default:
	}
}

// sleep waits for the delay or, if an attempt is requested, for at least shortestRetry. asked reports such a request;
// ok is false if ctx has ended.
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

// until is sleep without a minimum time. A nil retry receives no requests.
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

// nextPause returns the next delay, depending on whether the last one was interrupted.
func nextPause(pause time.Duration, asked bool) time.Duration {
	if asked {
		return shortestRetry
	}
	return min(2*pause, lastReload)
}
