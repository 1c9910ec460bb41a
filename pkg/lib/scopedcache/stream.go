package scopedcache

import (
	"cmp"
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// shortest is the minimum duration of a watch. The reflector treats a shorter watch without events as failed, and lists
// again.
const shortest = 1100 * time.Millisecond

// stream is a watch that other goroutines can end.
type stream struct {
	watch.Interface
	limits limits
	// ending is called before the stream ends the watch, which can take a long time if the connection does not close.
	ending func(*stream)

	mu sync.Mutex
	// begun is the time at which the watch was opened or, if it began with a list, the time at which the list was
	// complete.
	begun time.Time
	// limit is the maximum duration of the watch, even if the server no longer responds; 0 means no limit.
	limit time.Duration
	guard *time.Timer
	// listing is true while the watch sends its initial list.
	listing bool
	ended   bool
}

// newStream returns the stream of a watch that is not open yet.
func newStream(limits limits, ending func(*stream)) *stream {
	return &stream{limits: limits, ending: ending}
}

// open is called when the server has accepted the watch. The stream ends it at most watchGrace after its timeout.
func (s *stream) open(opened watch.Interface, options metav1.ListOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Interface, s.begun, s.listing = opened, time.Now(), options.SendInitialEvents != nil
	if options.TimeoutSeconds != nil {
		s.limit = time.Duration(*options.TimeoutSeconds)*time.Second + watchGrace
	}
	switch {
	case s.listing:
		s.guard = time.AfterFunc(s.limits.silence, s.stalled)
	case s.limit > 0:
		s.guard = time.AfterFunc(s.limit, s.end)
	}
}

// arrived is called for each part of the response that is received. Like the response to a list, the initial list must be
// complete within limits.request.
func (s *stream) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing && !s.ended {
		s.guard.Reset(min(s.limits.silence, time.Until(s.begun.Add(s.limits.request))))
	}
}

// stalled ends the watch, unless its initial list has just been completed.
func (s *stream) stalled() {
	s.mu.Lock()
	listing := s.listing
	s.mu.Unlock()
	if listing {
		s.end()
	}
}

func (s *stream) end() {
	s.ending(s)
	s.Stop()
}

// listed is called when the initial list is complete. The watch then lasts for the period, or until its limit if the
// period is 0.
func (s *stream) listed(period time.Duration) {
	s.mu.Lock()
	s.begun, s.listing = time.Now(), false
	s.mu.Unlock()
	if period = cmp.Or(period, s.limit); period > 0 {
		s.endAfter(period)
	}
}

// endAfter ends the watch when the period has passed since it began. It returns false if the watch has already ended.
func (s *stream) endAfter(period time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if s.guard != nil {
		s.guard.Stop()
	}
	s.guard = time.AfterFunc(time.Until(s.begun.Add(max(period, shortest))), s.end)
	return true
}

// isOpen reports whether there is a watch that has not been ended.
func (s *stream) isOpen() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

// Stop ends the watch, if there is one.
func (s *stream) Stop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.ended = true
	if s.guard != nil {
		s.guard.Stop()
	}
	s.mu.Unlock()
	s.Interface.Stop()
}

// reflectorOptions returns options that make a feed's reflector wait, according to Options.Retry, before it repeats a
// request. The wait ends early after a hint or when the feed ends, neither of which the reflector would notice.
func (f *feed) reflectorOptions(ctx context.Context) toolscache.ReflectorOptions {
	retry := f.kind.cache.options.Retry
	return toolscache.ReflectorOptions{
		Clock: retryClock{after: func(pause time.Duration) <-chan time.Time {
			f.kind.requested(f)
			over := make(chan time.Time, 1)
			f.kind.cache.feeds.Go(func() {
				f.sleep(ctx, pause)
				over <- time.Now()
			})
			return over
		}},
		Backoff: &wait.Backoff{Duration: retry.Initial / 2, Cap: retry.Max / 2, Steps: mostDoublings, Factor: 2, Jitter: 1},
	}
}

type retryClock struct {
	clock.RealClock
	after func(time.Duration) <-chan time.Time
}

// After implements clock.Clock.
func (c retryClock) After(pause time.Duration) <-chan time.Time { return c.after(pause) }
