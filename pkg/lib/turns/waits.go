package turns

import (
	"context"
	"sync"
	"time"
)

// recheck is the shortest time between two checks of whether a context has ended. WithTimeout may end late by that much.
const recheck = 100 * time.Millisecond

// Waits measures how long the calls of a task wait for turns because of other namespaces. If several calls wait at the same time,
// that time counts once.
type Waits struct {
	// parent measures the task that this one is a part of, if any.
	parent *Waits

	mu      sync.Mutex
	waiting int
	since   time.Time
	total   time.Duration
}

type waitsKey struct{}

// Measure returns a context for a task, and the waits of the calls that get this context. They are also waits of the task
// that the task is a part of.
func Measure(ctx context.Context) (context.Context, *Waits) {
	parent, _ := ctx.Value(waitsKey{}).(*Waits)
	w := &Waits{parent: parent}
	return context.WithValue(ctx, waitsKey{}, w), w
}

// Total returns how long the task has waited so far.
func (w *Waits) Total() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting > 0 {
		return w.total + time.Since(w.since)
	}
	return w.total
}

// add adds n to the number of calls that wait.
func (w *Waits) add(n int) {
	for ; w != nil; w = w.parent {
		w.mu.Lock()
		now := time.Now()
		if w.waiting > 0 {
			w.total += now.Sub(w.since)
		}
		w.waiting, w.since = w.waiting+n, now
		w.mu.Unlock()
	}
}

// WithTimeout returns a context that is canceled with a cause after the time d. The waits of the context do not count, up to the
// time most.
func WithTimeout(ctx context.Context, d, most time.Duration, cause error) (context.Context, *Waits, context.CancelFunc) {
	began := time.Now()
	ctx, waits := Measure(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			left := d + min(waits.Total(), most) - time.Since(began)
			if left <= 0 {
				cancel(cause)
				return
			}
			timer.Reset(max(left, recheck))
		}
	}()
	return ctx, waits, func() { cancel(nil) }
}
