// Package turns shares a limited resource between namespaces: catalogs that are read, Secrets in memory, a process.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxServed bounds the number of namespaces that Turns remembers.
const maxServed = 4096

// Turns shares Slots between namespaces. A namespace can use at most Share slots at a time. Free slots go to the
// namespace that was served least recently and, within a namespace, to the turn that has waited longest.
//
// A turn that has used a slot for the time Slice while another turn waits is asked to yield, without losing its progress.
// If it does not yield within the time Grace, its context is canceled with the cause Late. If Slice is zero, turns are never
// asked to yield.
type Turns struct {
	Slots, Share int
	Slice, Grace time.Duration
	Late         error

	mu              sync.Mutex
	active, waiting []*Turn
	// served maps a namespace to the serial number of its last slot.
	served map[string]int
	serial int
}

// Turn waits for a slot or uses one. Turns.mu protects its fields.
type Turn struct {
	// Namespace is whose turn it is, and Stop cancels its context.
	Namespace string
	Stop      context.CancelCauseFunc

	turns *Turns
	// granted is closed when the turn gets a slot.
	granted chan struct{}
	// timer fires at the end of the slice, and then at the end of the grace period.
	timer *time.Timer
	// over means that the slice has ended; asked means that the turn was asked to yield.
	over, asked bool
}

// Join waits for a slot. The returned context is canceled if the turn is stopped. The caller must call Leave. The error is the cause
// of the end of ctx.
func (t *Turns) Join(ctx context.Context, namespace string) (*Turn, context.Context, error) {
	ctx, stop := context.WithCancelCause(ctx)
	w := &Turn{turns: t, Namespace: namespace, Stop: stop}
	if err := w.wait(ctx); err != nil {
		w.Leave()
		return nil, ctx, err
	}
	return w, ctx, nil
}

// Waiting returns the number of turns that wait.
func (t *Turns) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// wait queues for a slot.
func (w *Turn) wait(ctx context.Context) error {
	t := w.turns
	t.mu.Lock()
	w.granted = make(chan struct{})
	granted := w.granted
	t.waiting = append(t.waiting, w)
	t.advance()
	t.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Yield releases the slot if another turn should have it, and waits for a new one.
func (w *Turn) Yield(ctx context.Context) error {
	w.turns.mu.Lock()
	asked := w.asked
	if asked {
		w.turns.remove(w)
	}
	w.turns.mu.Unlock()
	if !asked {
		return context.Cause(ctx)
	}
	return w.wait(ctx)
}

// Leave releases the slot, or the position in the queue.
func (w *Turn) Leave() {
	w.Stop(nil)
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	w.turns.remove(w)
	w.turns.advance()
}

// remove removes a turn from the slots and the queue. The caller must hold the lock.
func (t *Turns) remove(w *Turn) {
	matches := func(other *Turn) bool { return other == w }
	t.active, t.waiting = slices.DeleteFunc(t.active, matches), slices.DeleteFunc(t.waiting, matches)
	w.over, w.asked = false, false
	if w.timer != nil {
		w.timer.Stop()
	}
}

// advance assigns free slots, and asks turns to yield if others wait. The caller must hold the lock.
func (t *Turns) advance() {
	for len(t.active) < t.Slots {
		w := t.next()
		if w == nil {
			break
		}
		t.remove(w)
		t.active = append(t.active, w)
		t.noteServed(w.Namespace)
		if t.Slice > 0 {
			w.timer = time.AfterFunc(t.Slice, func() { t.sliceOver(w) })
		}
		close(w.granted)
	}
	t.makeRoom()
}

// next returns the turn that gets the next slot, or nil.
func (t *Turns) next() *Turn {
	var best *Turn
	for _, w := range t.waiting {
		if t.activeIn(w.Namespace) < t.Share && (best == nil || t.served[w.Namespace] < t.served[best.Namespace]) {
			best = w
		}
	}
	return best
}

func (t *Turns) activeIn(namespace string) int {
	n := 0
	for _, h := range t.active {
		if h.Namespace == namespace {
			n++
		}
	}
	return n
}

func (t *Turns) noteServed(namespace string) {
	if t.served == nil || len(t.served) > maxServed {
		t.served = map[string]int{}
	}
	t.serial++
	t.served[namespace] = t.serial
}

func (t *Turns) sliceOver(w *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.active, w) {
		w.over = true
		t.makeRoom()
	}
}

// makeRoom asks turns whose slice has ended to yield, in the order in which they got their slots. It asks at most as
// many turns as there are waiting turns that could use their slots. The caller must hold the lock.
func (t *Turns) makeRoom() {
	left := len(t.waiting)
	for _, h := range t.active {
		if h.asked {
			left--
		}
	}
	for _, h := range t.active {
		if left > 0 && h.over && !h.asked && t.blocks(h) {
			left--
			t.ask(h)
		}
	}
}

// blocks reports whether a waiting turn could use the slot of h.
func (t *Turns) blocks(h *Turn) bool {
	return slices.ContainsFunc(t.waiting, func(w *Turn) bool {
		return w.Namespace == h.Namespace || t.activeIn(w.Namespace) < t.Share
	})
}

func (t *Turns) ask(h *Turn) {
	h.asked = true
	h.timer = time.AfterFunc(t.Grace, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if h.asked {
			h.Stop(t.Late)
		}
	})
}

// YieldTogether returns a function like Yield for several goroutines that share a turn: all of them wait.
func (w *Turn) YieldTogether() func(context.Context) error {
	var mu sync.Mutex
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		return w.Yield(ctx)
	}
}
