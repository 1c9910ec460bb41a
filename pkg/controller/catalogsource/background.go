package catalogsource

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// background runs goroutines while the program is the leader: from Start until its context ends. The zero value is ready
// to use.
type background struct {
	mu sync.Mutex
	// begin starts a goroutine; nil until Start. pending are to be started then.
	begin   func(*task)
	pending map[*task]bool
	// over reports whether the context of Start has ended.
	over  func() bool
	group sync.WaitGroup
}

// task is one goroutine of a background.
type task struct {
	run func(context.Context)
	// cancel ends the context of a goroutine that was started.
	cancel context.CancelFunc
}

// Start implements manager.Runnable. It returns when ctx has ended and all goroutines have returned.
func (b *background) Start(ctx context.Context) error {
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
	// A goroutine that begins holds the lock: after this, none is added while Wait runs.
	b.mu.Lock()
	b.begin = func(*task) {}
	b.mu.Unlock()
	b.group.Wait()
	return nil
}

// launch runs a function in a goroutine, and returns how to end it. The function does not run at all if it is ended before Start.
func (b *background) launch(run func(context.Context)) (end func()) {
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

// isOver reports whether the context of Start has ended.
func (b *background) isOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over != nil && b.over()
}

// slots limits how many goroutines of one namespace do the same kind of work at once.
type slots struct {
	max  int64
	used keyed.Map[string, *semaphore.Weighted]
}

// take waits for a slot, and returns how to free it. The error is that of ctx.
func (s *slots) take(ctx context.Context, namespace string) (free func(), err error) {
	used := s.used.Change(namespace, func(all **semaphore.Weighted) {
		if *all == nil {
			*all = semaphore.NewWeighted(s.max)
		}
	})
	return func() { used.Release(1) }, used.Acquire(ctx, 1)
}
