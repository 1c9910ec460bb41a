package catalogsource

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxServed is how many namespaces turns remembers as served.
const maxServed = 4096

// slow is an error of a registry, or of a catalog, that takes too long.
type slow string

func (s slow) Error() string { return string(s) }

const errInTheWay = slow("it is slow, and catalogs of other namespaces wait")

// turns shares slots between namespaces. A namespace holds at most share of them. Free slots go to the namespace that was
// served least recently, and within a namespace to who has waited longest.
//
// Who has held a slot for a slice while another could have it is asked to yield, which loses nothing: it waits until it is its
// turn again. Who does not within the grace is stopped with errInTheWay. A slice of zero asks nobody.
type turns struct {
	slots, share int
	slice, grace time.Duration

	mu            sync.Mutex
	held, waiting []*turn
	// served has the serial of each namespace's last slot.
	served map[string]int
	serial int
}

// turn is one that waits for a slot or holds one. Its fields are guarded by the lock of its turns.
type turn struct {
	of        *turns
	namespace string
	stop      context.CancelCauseFunc
	// granted is closed when it holds a slot.
	granted chan struct{}
	// timer ends the slice and then the grace.
	timer *time.Timer
	// over says that the slice is, asked that somebody else is to have the slot.
	over, asked bool
}

// join returns once there is a slot. The context that it returns ends early where the turn is stopped; leave must be called.
func (t *turns) join(ctx context.Context, namespace string) (*turn, context.Context, error) {
	ctx, stop := context.WithCancelCause(ctx)
	w := &turn{of: t, namespace: namespace, stop: stop}
	if err := w.wait(ctx); err != nil {
		w.leave()
		return nil, ctx, err
	}
	return w, ctx, nil
}

// wait queues for a slot.
func (w *turn) wait(ctx context.Context) error {
	t := w.of
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

// yield lets others go first where that was asked, and returns once there is a slot again.
func (w *turn) yield(ctx context.Context) error {
	w.of.mu.Lock()
	asked := w.asked
	if asked {
		w.of.remove(w)
	}
	w.of.mu.Unlock()
	if !asked {
		return context.Cause(ctx)
	}
	return w.wait(ctx)
}

// leave gives the slot back, or the place in the queue.
func (w *turn) leave() {
	w.stop(nil)
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.of.remove(w)
	w.of.advance()
}

// remove takes a turn out. The caller holds the lock.
func (t *turns) remove(w *turn) {
	is := func(other *turn) bool { return other == w }
	t.held, t.waiting = slices.DeleteFunc(t.held, is), slices.DeleteFunc(t.waiting, is)
	w.over, w.asked = false, false
	if w.timer != nil {
		w.timer.Stop()
	}
}

// advance gives free slots to those whose turn it is, and sees to it that the others get theirs. The caller holds the lock.
func (t *turns) advance() {
	for len(t.held) < t.slots {
		w := t.next()
		if w == nil {
			break
		}
		t.remove(w)
		t.held = append(t.held, w)
		t.noteServed(w.namespace)
		if t.slice > 0 {
			w.timer = time.AfterFunc(t.slice, func() { t.sliceOver(w) })
		}
		close(w.granted)
	}
	t.makeRoom()
}

// next is who has the next slot, if anybody may.
func (t *turns) next() *turn {
	var best *turn
	for _, w := range t.waiting {
		if t.holds(w.namespace) < t.share && (best == nil || t.served[w.namespace] < t.served[best.namespace]) {
			best = w
		}
	}
	return best
}

func (t *turns) holds(namespace string) int {
	n := 0
	for _, h := range t.held {
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
	if slices.Contains(t.held, w) {
		w.over = true
		t.makeRoom()
	}
}

// makeRoom asks those whose slice is over, the longest first, as many as could be replaced by one that waits. The caller holds
// the lock.
func (t *turns) makeRoom() {
	left := len(t.waiting)
	for _, h := range t.held {
		if h.asked {
			left--
		}
	}
	for _, h := range t.held {
		if left > 0 && h.over && !h.asked && t.blocks(h) {
			left--
			t.ask(h)
		}
	}
}

// blocks says whether one that waits could have a turn's slot.
func (t *turns) blocks(h *turn) bool {
	return slices.ContainsFunc(t.waiting, func(w *turn) bool {
		return w.namespace == h.namespace || t.holds(w.namespace) < t.share
	})
}

func (t *turns) ask(h *turn) {
	h.asked = true
	h.timer = time.AfterFunc(t.grace, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if h.asked {
			h.stop(errInTheWay)
		}
	})
}
