package scopedcache

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// shortest is the least time that a watch runs. The reflector treats a shorter watch without events as a failure, and
// lists again.
const shortest = 1100 * time.Millisecond

// stream is a watch that other goroutines can end.
type stream struct {
	watch.Interface
	// begun is when it was opened or, if it began with a list, when that was complete. The kind's mutex guards it.
	begun time.Time
	// ending is called before the stream ends the watch itself, which may take long if the connection does not close.
	ending func(*stream)

	mu    sync.Mutex
	guard *time.Timer
	ended bool
}

// newStream returns a stream that ends at most watchGrace after the timeout, even if the server no longer responds.
func newStream(opened watch.Interface, seconds *int64, ending func(*stream)) *stream {
	s := &stream{Interface: opened, begun: time.Now(), ending: ending}
	if seconds != nil {
		s.endAfter(time.Duration(*seconds)*time.Second + watchGrace)
	}
	return s
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
	s.guard = time.AfterFunc(time.Until(s.begun.Add(max(period, shortest))), func() {
		s.ending(s)
		s.Stop()
	})
	return true
}

// isOpen returns true if there is a watch and nothing has ended it.
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

// reflectorOptions make a feed's reflector wait, according to Options.Retry, before it repeats a request. The wait ends
// early when there is a hint or when the feed ends; the reflector itself does not wake up for either.
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
