package probe

import corev1 "k8s.io/api/core/v1"

type verdict int

const (
	undecided verdict = iota
	healthy
	unhealthy
)

// tracker counts consecutive results up to the thresholds.
type tracker struct {
	successes, failures int32
	needed, tolerated   int32
}

func newTracker(p *corev1.Probe) *tracker {
	return &tracker{needed: orDefault(p.SuccessThreshold, 1), tolerated: orDefault(p.FailureThreshold, 3)}
}

func (t *tracker) add(ok bool) verdict {
	if ok {
		t.successes, t.failures = t.successes+1, 0
		if t.successes >= t.needed {
			return healthy
		}
		return undecided
	}
	t.successes, t.failures = 0, t.failures+1
	if t.failures >= t.tolerated {
		return unhealthy
	}
	return undecided
}

func orDefault(n, fallback int32) int32 {
	if n <= 0 {
		return fallback
	}
	return n
}
