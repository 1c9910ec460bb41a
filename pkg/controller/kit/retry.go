package kit

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// FirstPause is the first delay of the exponential backoff after a failed pull.
const FirstPause = 10 * time.Second

// LastPause is the longest delay.
const LastPause = 5 * time.Minute

// ShortestRetry is the minimum time between a failed attempt and the next one, and the first delay after a requested
// attempt fails: the cache may show a grant before the API server enforces it.
const ShortestRetry = time.Second

// Retry interrupts the delay after a failed pull. Callers request a new attempt after a change that may affect the
// pull.
type Retry chan struct{}

// NewRetry returns a Retry without requests.
func NewRetry() Retry { return make(Retry, 1) }

// Ask requests an attempt. It never blocks; several requests before the next attempt count as one.
func (r Retry) Ask() {
	select {
	case r <- struct{}{}:
	default:
	}
}

// Begin discards requests that were made before an attempt.
func (r Retry) Begin() {
	select {
	case <-r:
	default:
	}
}

// Sleep waits for the delay or, if an attempt is requested, for at least ShortestRetry. asked reports whether an
// attempt was requested; ok is false if ctx is done.
func (r Retry) Sleep(ctx context.Context, clock clock.Clock, pause time.Duration) (asked, ok bool) {
	begun := clock.Now()
	if asked, ok = r.Until(ctx, clock, pause); !asked {
		return false, ok
	}
	left := ShortestRetry - clock.Since(begun)
	if left <= 0 {
		return true, true
	}
	_, ok = Retry(nil).Until(ctx, clock, left)
	return true, ok
}

// Until is like Sleep, but without a minimum time. A nil Retry receives no requests.
func (r Retry) Until(ctx context.Context, clock clock.Clock, pause time.Duration) (asked, ok bool) {
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

// NextPause returns the next delay, depending on whether the last one was interrupted.
func NextPause(pause time.Duration, asked bool) time.Duration {
	if asked {
		return ShortestRetry
	}
	return min(2*pause, LastPause)
}
