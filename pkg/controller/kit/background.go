package kit

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Background runs goroutines while the program is the leader: from Start until its context is done. The zero value is
// ready to use.
type Background struct {
	mu sync.Mutex
	// begin starts a task's goroutine. It is nil until Start sets it and starts the pending tasks.
	begin   func(*task)
	pending map[*task]bool
	// over reports whether the context passed to Start is done.
	over  func() bool
	group sync.WaitGroup
}

// task is one goroutine.
type task struct {
	run func(context.Context)
	// cancel cancels the context of the goroutine; nil if it was not started.
	cancel context.CancelFunc
}

// Start implements manager.Runnable. It returns when ctx is done and all goroutines have returned.
func (b *Background) Start(ctx context.Context) error {
	b.mu.Lock()
	b.over = func() bool { return ctx.Err() != nil }
	b.begin = func(t *task) {
		if b.over() {
			return
		}
		own, cancel := context.WithCancel(ctx)
		t.cancel = cancel
		b.group.Go(func() {
			defer cancel()
			t.run(own)
		})
	}
	for t := range b.pending {
		b.begin(t)
	}
	b.pending = nil
	b.mu.Unlock()
	<-ctx.Done()
	// Replace begin under the lock, so that no goroutine is added while Wait runs.
	b.mu.Lock()
	b.begin = func(*task) {}
	b.mu.Unlock()
	b.group.Wait()
	return nil
}

// Launch runs a function in a goroutine. The returned function cancels the goroutine's context; if it is called before
// Start, the goroutine never runs.
func (b *Background) Launch(run func(context.Context)) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &task{run: run}
	if b.begin != nil {
		b.begin(t)
	} else {
		if b.pending == nil {
			b.pending = map[*task]bool{}
		}
		b.pending[t] = true
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.pending, t)
		if t.cancel != nil {
			t.cancel()
		}
	}
}

// IsOver reports whether the context of Start is done.
func (b *Background) IsOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over != nil && b.over()
}

// Slots limits how many goroutines of one namespace do the same kind of work concurrently.
type Slots struct {
	// Max is the limit for one namespace.
	Max int64

	mu   sync.Mutex
	used map[string]*usedSlots
}

// usedSlots are the slots of a namespace, which are removed when none is used. Slots.mu protects users.
type usedSlots struct {
	slots *semaphore.Weighted
	// users counts the goroutines that use a slot or wait for one.
	users int
}

// Take waits for a slot, and returns a function that frees it. It returns an error only if ctx is done.
func (s *Slots) Take(ctx context.Context, namespace string) (free func(), err error) {
	s.mu.Lock()
	own := s.used[namespace]
	if own == nil {
		own = &usedSlots{slots: semaphore.NewWeighted(s.Max)}
		if s.used == nil {
			s.used = map[string]*usedSlots{}
		}
		s.used[namespace] = own
	}
	own.users++
	s.mu.Unlock()
	if err := own.slots.Acquire(ctx, 1); err != nil {
		s.leave(namespace, own)
		return func() {}, err
	}
	return func() { own.slots.Release(1); s.leave(namespace, own) }, nil
}

func (s *Slots) leave(namespace string, own *usedSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(s.used, namespace)
	}
}
