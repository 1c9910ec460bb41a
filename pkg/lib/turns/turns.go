// Package turns shares a limited resource between namespaces: catalogs that are read, Secrets in memory, a process.
package turns

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/remit-olm/remit/pkg/lib/journal"
)

// maxServed bounds the number of namespaces that Turns remembers.
const maxServed = 4096

// Turns shares Slots between namespaces. A namespace can use at most Share slots at a time. Free slots go to the
// namespace that was served least recently and, within a namespace, to the turn that has waited longest.
//
// A turn that has used a slot for the time Slice while another turn waits is asked to yield, without losing its progress.
// If it does not yield within the time Grace, its context is canceled with the cause Late. If Slice is zero, turns are never
// asked to yield.
//
// If LateFor is not zero, a namespace with a turn that did not yield within the time Promptly after it was asked to is late for that time: its turns come
// after those of other namespaces, and all late namespaces together use at most half of the slots. A namespace that is not late
// thus waits only for others that are not. While late ones wait, others leave them these slots, unless there is only one. If LateAlone
// is true, a namespace is late if its turn was longer than Slice, although it was not asked to yield because no other could use its slot.
type Turns struct {
	Slots, Share int
	Slice, Grace time.Duration
	Late         error
	LateFor      time.Duration
	Promptly     time.Duration
	LateAlone    bool
	// Journal records, under Name, whose turn it is; it may be nil. A suspended namespace waits for its turn without a slot.
	Journal *journal.Journal
	Name    string

	mu              sync.Mutex
	active, waiting []*Turn
	// served maps a namespace to the serial number of its last slot.
	served map[string]int
	serial int
	// late maps a namespace to the time until which it is late.
	late map[string]time.Time
}

// Turn waits for a slot or uses one. Turns.mu protects its fields.
type Turn struct {
	// Namespace is whose turn it is, and Stop cancels its context.
	Namespace string
	Stop      context.CancelCauseFunc

	turns *Turns
	// granted is closed when the turn gets a slot.
	granted chan struct{}
	// since is when the turn got its slot.
	since time.Time
	// timer fires at the end of the slice, and then at the end of the grace period.
	timer *time.Timer
	// recorded means that the turn is in the journal. Only the goroutine of the turn uses it.
	recorded bool
	// over means that the slice has ended; asked means that the turn was asked to yield, at the time askedAt.
	over, asked bool
	askedAt     time.Time
}

// Join waits for a slot. The returned context is canceled if the turn is stopped. The caller must call Leave. The error is the cause
// of the end of ctx. The time for which other namespaces use all slots counts as a wait of ctx.
func (t *Turns) Join(ctx context.Context, namespace string) (*Turn, context.Context, error) {
	ctx, stop := context.WithCancelCause(ctx)
	w := &Turn{turns: t, Namespace: namespace, Stop: stop}
	err := pause(ctx, t.Journal.Wait(t.item(namespace)))
	if err == nil {
		err = w.wait(ctx)
	}
	if err != nil {
		w.Leave()
		return nil, ctx, err
	}
	w.record()
	return w, ctx, nil
}

// pause waits. The error is the cause of the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
	isForOthers := t.activeIn(w.Namespace) < t.Share && !t.isLate(w)
	t.mu.Unlock()
	if waits, ok := ctx.Value(waitsKey{}).(*Waits); ok && isForOthers {
		waits.add(1)
		defer waits.add(-1)
	}
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
		w.turns.noteLate(w)
		w.turns.remove(w)
	}
	w.turns.mu.Unlock()
	if !asked {
		return context.Cause(ctx)
	}
	w.finish()
	err := w.wait(ctx)
	if err == nil {
		w.record()
	}
	return err
}

// record records in the journal whose turn it is. A suspended namespace has waited before it joined.
func (w *Turn) record() {
	item := w.turns.item(w.Namespace)
	w.recorded = w.turns.Journal.Begin(item) == 0
}

// finish removes the record, because a turn that waits does nothing.
func (w *Turn) finish() {
	if w.recorded {
		w.turns.Journal.Done(w.turns.item(w.Namespace))
		w.recorded = false
	}
}

func (t *Turns) item(namespace string) journal.Item {
	return journal.Item{Group: namespace, Name: t.Name + "/" + namespace}
}

// Leave releases the slot, or the position in the queue.
func (w *Turn) Leave() {
	w.Stop(nil)
	w.finish()
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	w.turns.noteLate(w)
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
		t.active, w.since = append(t.active, w), time.Now()
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
	reserved := t.reserved(nil)
	for _, w := range t.waiting {
		if t.canUse(w, nil, reserved) && (best == nil || t.precedes(w, best)) {
			best = w
		}
	}
	return best
}

// precedes reports whether the next slot is for the turn w rather than for a turn that has waited longer.
func (t *Turns) precedes(w, other *Turn) bool {
	return cmp.Or(
		cmp.Compare(lateness(t.isLate(w)), lateness(t.isLate(other))),
		cmp.Compare(t.served[w.Namespace], t.served[other.Namespace]),
	) < 0
}

// canUse reports whether a turn that waits may use a free slot or, if freed is not nil, the slot of that turn. reserved is the result of
// reserved for the same freed turn.
func (t *Turns) canUse(w, freed *Turn, reserved int) bool {
	most := t.Slots - reserved
	matches := func(h *Turn) bool { return !t.isLate(h) }
	if t.isLate(w) {
		most, matches = t.forLate(), t.isLate
	}
	return t.hasShare(w, freed) && t.count(freed, matches) < most
}

func (t *Turns) hasShare(w, freed *Turn) bool {
	return t.count(freed, func(h *Turn) bool { return h.Namespace == w.Namespace }) < t.Share
}

func (t *Turns) isLate(w *Turn) bool { return time.Now().Before(t.late[w.Namespace]) }

// lateness returns 1 for late turns, and 0 for others.
func lateness(isLate bool) int {
	if isLate {
		return 1
	}
	return 0
}

// forLate returns the number of slots that late namespaces can use.
func (t *Turns) forLate() int { return max(t.Slots/2, 1) }

// reserved returns the number of slots that namespaces which are not late must leave to late ones, because one of these waits and none
// has a slot. Otherwise, others could keep the late ones, of which each call of a slow registry makes one, from any slot.
func (t *Turns) reserved(freed *Turn) int {
	waits := func(w *Turn) bool { return t.isLate(w) && t.hasShare(w, freed) }
	if t.Slots == 1 || t.count(freed, t.isLate) > 0 || !slices.ContainsFunc(t.waiting, waits) {
		return 0
	}
	return t.forLate()
}

// count returns the number of turns that use a slot, except for one.
func (t *Turns) count(except *Turn, matches func(*Turn) bool) int {
	n := 0
	for _, h := range t.active {
		if h != except && matches(h) {
			n++
		}
	}
	return n
}

func (t *Turns) activeIn(namespace string) int {
	return t.count(nil, func(h *Turn) bool { return h.Namespace == namespace })
}

// noteLate records that a namespace is late if its turn, which ends or yields, was asked to do so a while ago, or was too long.
func (t *Turns) noteLate(w *Turn) {
	wasAsked, wasLong := w.asked && time.Since(w.askedAt) >= t.Promptly, w.over && t.LateAlone
	if t.LateFor == 0 || !wasAsked && !wasLong {
		return
	}
	if t.late == nil || len(t.late) > maxServed {
		t.late = map[string]time.Time{}
	}
	t.late[w.Namespace] = time.Now().Add(t.LateFor)
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
	reserved := t.reserved(h)
	return slices.ContainsFunc(t.waiting, func(w *Turn) bool { return t.canUse(w, h, reserved) })
}

func (t *Turns) ask(h *Turn) {
	h.asked, h.askedAt = true, time.Now()
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
