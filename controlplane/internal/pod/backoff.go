package pod

import "time"

const (
	// firstBackoff to maxBackoff: the kubelet's 10 s to 5 min would exceed the duration of a test.
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// goodRun is how long a container has to run for the delay to be reset.
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
