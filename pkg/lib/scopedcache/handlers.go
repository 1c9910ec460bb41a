package scopedcache

import (
	"errors"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// notification is one event. An object that was added has no old one, a deleted one has no current one.
type notification struct {
	old, current client.Object
	// initial is true for an object that existed before the handler or the watch.
	initial bool
}

// handlers distributes the events of a kind. The handlers belong to the kind and not to one of its watches, so that a
// change of scope neither loses them nor tells them anything twice.
type handlers struct {
	index toolscache.Indexer

	mu     sync.Mutex
	all    map[*registration]struct{}
	closed bool
	wait   sync.WaitGroup
}

func newHandlers(index toolscache.Indexer) *handlers {
	return &handlers{index: index, all: map[*registration]struct{}{}}
}

// registration is a handler with the events that it has not handled yet. Each has a goroutine, so that a slow handler
// delays no other.
type registration struct {
	handler toolscache.ResourceEventHandler
	synced  func() bool

	mu      sync.Mutex
	wake    *sync.Cond
	pending []notification
	// replay is the number of events that are left of the first ones, and initial that of objects which existed before their
	// watch.
	replay, initial int
	wasSynced       bool
	closed          bool
	done            chan struct{}
	resync          *time.Ticker
	stop            chan struct{}
}

// add registers a handler. It first receives all stored objects. The caller holds the kind's mutex, so that no
// event is lost or repeated in between.
func (h *handlers) add(handler toolscache.ResourceEventHandler, resync time.Duration, synced func() bool) (*registration, error) {
	if handler == nil {
		return nil, errors.New("no handler")
	}
	r := &registration{handler: handler, synced: synced, done: make(chan struct{}), stop: make(chan struct{})}
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
		return nil, errors.New("the cache has stopped")
	}
	h.all[r] = struct{}{}
	h.wait.Go(r.run)
	if resync > 0 {
		r.resync = time.NewTicker(resync)
		h.wait.Go(func() { r.resyncAll(h.index) })
	}
	return r, nil
}

// remove ends a handler. Events that it has not handled yet are dropped. It may be called twice.
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

// pending returns the number of events that wait for a handler.
func (h *handlers) pending() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := 0
	for r := range h.all {
		r.mu.Lock()
		sum += len(r.pending)
		r.mu.Unlock()
	}
	return sum
}

// end ends all handlers.
func (h *handlers) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for r := range h.all {
		r.close()
	}
}

// close ends all handlers and waits until they have returned.
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

// run delivers the events one after the other.
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
		r.pending = nil
		r.mu.Unlock()
		for _, n := range batch {
			if r.isClosed() {
				return
			}
			r.deliver(n)
		}
	}
}

func (r *registration) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
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

// resyncAll repeats an update of each stored object now and then, as the informers of client-go do.
func (r *registration) resyncAll(index toolscache.Indexer) {
	for {
		select {
		case <-r.stop:
			return
		case <-r.resync.C:
		}
		for _, obj := range index.List() {
			r.add(notification{old: obj.(client.Object), current: obj.(client.Object)})
		}
	}
}

// HasSynced returns true when the handler has heard of all objects that were stored when it was added, and the kind has
// synced.
func (r *registration) HasSynced() bool {
	synced := r.synced()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wasSynced = r.wasSynced || synced && r.replay == 0 && r.initial == 0
	return r.wasSynced
}

// HasSyncedChecker returns a checker that is done when the handler has heard of all objects that were stored when it
// was added.
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
