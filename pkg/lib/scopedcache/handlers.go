package scopedcache

import (
	"errors"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errStopped = errors.New("the cache is stopped")

// notification is an event. An add event has no old object; a delete event has no current object.
type notification struct {
	old, current client.Object
	// initial is true for an object that existed before the handler or the watch.
	initial bool
}

// handlers distributes the events of a kind. The handlers belong to the kind and not to one of its watches, so they are
// kept when scopes change and receive no event twice.
type handlers struct {
	index toolscache.Indexer
	// lock prevents changes to the stored objects, and therefore new events.
	lock sync.Locker

	mu     sync.Mutex
	all    map[*registration]struct{}
	closed bool
	wait   sync.WaitGroup
}

func newHandlers(index toolscache.Indexer, lock sync.Locker) *handlers {
	return &handlers{index: index, lock: lock, all: map[*registration]struct{}{}}
}

// registration is a handler with its pending events. Each registration has its own goroutine, so that a slow handler does
// not delay the others.
type registration struct {
	of      *handlers
	handler toolscache.ResourceEventHandler
	synced  func() bool

	mu      sync.Mutex
	wake    *sync.Cond
	pending []notification
	// taken is the number of events of the current batch that are not being handled yet.
	taken int
	// replay is the number of pending events for objects that were stored when the handler was added. initial is the number
	// of later events that are pending for objects that existed before their watch.
	replay, initial int
	wasSynced       bool
	closed          bool
	done            chan struct{}
	resync          *time.Ticker
	stop            chan struct{}
}

// add registers a handler, which first receives all stored objects. The caller holds the kind's mutex, so that no event is
// lost or repeated.
func (h *handlers) add(handler toolscache.ResourceEventHandler, resync time.Duration, synced func() bool) (*registration, error) {
	if handler == nil {
		return nil, errors.New("no handler")
	}
	r := &registration{of: h, handler: handler, synced: synced, done: make(chan struct{}), stop: make(chan struct{})}
	r.wake = sync.NewCond(&r.mu)
	for _, obj := range h.index.List() {
		r.pending = append(r.pending, notification{current: obj.(client.Object), initial: true})
	}
	r.replay = len(r.pending)
	if r.replay == 0 {
		close(r.done)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errStopped
	}
	h.all[r] = struct{}{}
	h.wait.Go(r.run)
	if resync > 0 {
		r.resync = time.NewTicker(resync)
		h.wait.Go(func() { h.resync(r) })
	}
	return r, nil
}

// remove removes a handler and drops its pending events. It may be called more than once.
func (h *handlers) remove(r *registration) {
	h.mu.Lock()
	delete(h.all, r)
	h.mu.Unlock()
	r.close()
}

func (h *handlers) notify(n notification) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.all {
		r.add(n)
	}
}

// pending returns the number of pending events of all handlers.
func (h *handlers) pending() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := 0
	for r := range h.all {
		r.mu.Lock()
		sum += len(r.pending) + r.taken
		r.mu.Unlock()
	}
	return sum
}

// end stops all handlers.
func (h *handlers) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for r := range h.all {
		r.close()
	}
}

// close stops all handlers and waits for their goroutines.
func (h *handlers) close() {
	h.end()
	h.wait.Wait()
}

func (r *registration) add(n notification) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.initial {
		r.initial++
	}
	r.pending = append(r.pending, n)
	r.wake.Signal()
}

func (r *registration) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	close(r.stop)
	if r.resync != nil {
		r.resync.Stop()
	}
	r.wake.Signal()
}

// run delivers the events in order.
func (r *registration) run() {
	for {
		r.mu.Lock()
		for len(r.pending) == 0 && !r.closed {
			r.wake.Wait()
		}
		if r.closed {
			r.mu.Unlock()
			return
		}
		batch := r.pending
		r.pending, r.taken = nil, len(batch)
		r.mu.Unlock()
		for _, n := range batch {
			if !r.next() {
				return
			}
			r.deliver(n)
		}
	}
}

// next starts the next event. It returns false if the handler was removed.
func (r *registration) next() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken--
	return !r.closed
}

func (r *registration) deliver(n notification) {
	switch {
	case n.current == nil:
		r.handler.OnDelete(n.old)
	case n.old == nil:
		r.handler.OnAdd(n.current, n.initial)
	default:
		r.handler.OnUpdate(n.old, n.current)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replay > 0 {
		if r.replay--; r.replay == 0 {
			close(r.done)
		}
	} else if n.initial {
		r.initial--
	}
}

// resync periodically sends an update event for each stored object, as client-go informers do. It prevents concurrent
// changes, so that such an update never follows a newer event of its object.
func (h *handlers) resync(r *registration) {
	for {
		select {
		case <-r.stop:
			return
		case <-r.resync.C:
		}
		h.lock.Lock()
		for _, obj := range h.index.List() {
			r.add(notification{old: obj.(client.Object), current: obj.(client.Object)})
		}
		h.lock.Unlock()
	}
}

// HasSynced reports whether the kind has synced and the handler has received all objects listed so far.
func (r *registration) HasSynced() bool {
	synced := r.synced()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wasSynced = r.wasSynced || synced && r.replay == 0 && r.initial == 0
	return r.wasSynced
}

// HasSyncedChecker returns a checker that is done when the handler has received all objects that were stored when it was
// added.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	return doneChecker{name: "handler", done: r.done}
}

type doneChecker struct {
	name string
	done <-chan struct{}
}

func (d doneChecker) Name() string          { return d.name }
func (d doneChecker) Done() <-chan struct{} { return d.done }

var _ toolscache.ResourceEventHandlerRegistration = (*registration)(nil)
