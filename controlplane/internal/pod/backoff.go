package pod

import "time"

const (
	// firstBackoff and maxBackoff are the first and the longest delay before a restart. They are shorter than the
	// kubelet's 10 s and 5 min, which would exceed the duration of a test.
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// goodRun is how long a container has to run before the delay is reset.
	goodRun = time.Minute
)

// backoff doubles the delay between the restarts of one container.
type backoff struct{ delay time.Duration }

func (b *backoff) next(ran time.Duration) time.Duration {
	if ran >= goodRun {
		b.delay = 0
	}
	b.delay = max(firstBackoff, min(2*b.delay, maxBackoff))
	return b.delay
}
