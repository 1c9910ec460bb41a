package catalogsource

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxServed bounds the number of namespaces that turns remembers.
const maxServed = 4096

// slow is the error for a registry or catalog that takes too long.
type slow string

func (s slow) Error() string { return string(s) }

const errYieldTimeout = slow("the catalog is slow, and catalogs of other namespaces are waiting")

// turns shares slots between namespaces. A namespace can use at most share slots at a time. Free slots go to the
// namespace that was served least recently and, within a namespace, to the turn that has waited longest.
//
// A turn that has used a slot for a time slice while another turn waits is asked to yield, without losing its progress.
// If it does not yield within the grace period, it is stopped with errYieldTimeout. If slice is zero, turns are never
// asked to yield.
type turns struct {
	slots, share int
	slice, grace time.Duration

	mu              sync.Mutex
	active, waiting []*turn
	// served maps a namespace to the serial number of its last slot.
	served map[string]int
	serial int
}

// turn waits for a slot or uses one. turns.mu protects its fields.
type turn struct {
	turns     *turns
	namespace string
	stop      context.CancelCauseFunc
	// granted is closed when the turn gets a slot.
	granted chan struct{}
	// timer fires at the end of the slice, and then at the end of the grace period.
	timer *time.Timer
	// over means that the slice has ended; asked means that the turn was asked to yield.
	over, asked bool
}

// join waits for a slot. The returned context is canceled if the turn is stopped. The caller must call leave.
func (t *turns) join(ctx context.Context, namespace string) (*turn, context.Context, error) {
	ctx, stop := context.WithCancelCause(ctx)
	w := &turn{turns: t, namespace: namespace, stop: stop}
	if err := w.wait(ctx); err != nil {
		w.leave()
		return nil, ctx, err
	}
	return w, ctx, nil
}

// wait queues for a slot.
func (w *turn) wait(ctx context.Context) error {
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

// yield releases the slot if another turn should have it, and waits for a new one.
func (w *turn) yield(ctx context.Context) error {
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

// leave releases the slot, or the position in the queue.
func (w *turn) leave() {
	w.stop(nil)
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	w.turns.remove(w)
	w.turns.advance()
}

// remove removes a turn from the slots and the queue. The caller must hold the lock.
func (t *turns) remove(w *turn) {
	matches := func(other *turn) bool { return other == w }
	t.active, t.waiting = slices.DeleteFunc(t.active, matches), slices.DeleteFunc(t.waiting, matches)
	w.over, w.asked = false, false
	if w.timer != nil {
		w.timer.Stop()
	}
}

// advance assigns free slots, and asks turns to yield if others wait. The caller must hold the lock.
func (t *turns) advance() {
	for len(t.active) < t.slots {
		w := t.next()
		if w == nil {
			break
		}
		t.remove(w)
		t.active = append(t.active, w)
		t.noteServed(w.namespace)
		if t.slice > 0 {
			w.timer = time.AfterFunc(t.slice, func() { t.sliceOver(w) })
		}
		close(w.granted)
	}
	t.makeRoom()
}

// next returns the turn that gets the next slot, or nil.
func (t *turns) next() *turn {
	var best *turn
	for _, w := range t.waiting {
		if t.activeIn(w.namespace) < t.share && (best == nil || t.served[w.namespace] < t.served[best.namespace]) {
			best = w
		}
	}
	return best
}

func (t *turns) activeIn(namespace string) int {
	n := 0
	for _, h := range t.active {
		if h.namespace == namespace {
			n++
		}
	}
	return n
}

func (t *turns) noteServed(namespace string) {
	if t.served == nil || len(t.served) > maxServed {
		t.served = map[string]int{}
	}
	t.serial++
	t.served[namespace] = t.serial
}

func (t *turns) sliceOver(w *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.active, w) {
		w.over = true
		t.makeRoom()
	}
}

// makeRoom asks turns whose slice has ended to yield, in the order in which they got their slots. It asks at most as
// many turns as there are waiting turns that could use their slots. The caller must hold the lock.
func (t *turns) makeRoom() {
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
func (t *turns) blocks(h *turn) bool {
	return slices.ContainsFunc(t.waiting, func(w *turn) bool {
		return w.namespace == h.namespace || t.activeIn(w.namespace) < t.share
	})
}

func (t *turns) ask(h *turn) {
	h.asked = true
	h.timer = time.AfterFunc(t.grace, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if h.asked {
			h.stop(errYieldTimeout)
		}
	})
}

// yieldTogether returns a function like yield for several goroutines that share a turn: all of them wait.
func (w *turn) yieldTogether() func(context.Context) error {
	var mu sync.Mutex
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		return w.yield(ctx)
	}
}

// lanes contains separate turns for tenants and for the global catalog namespace, so that neither waits for the other.
type lanes struct {
	// reserved is the global catalog namespace.
	reserved        string
	global, tenants *turns
}

func (l *lanes) turnsOf(namespace string) *turns {
	if namespace == l.reserved {
		return l.global
	}
	return l.tenants
}
