package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// maxStall limits the time in which a client must read an event of a watch. If the client takes longer, the watch ends.
const maxStall = time.Minute

// delivery tracks which events of a watch the client has not read yet, so that the memory for them can be limited. The
// watch offers events one at a time; the handler takes each one, and writes and flushes it before it takes the next one.
type delivery struct {
	mu sync.Mutex
	// releases contains the functions that release the memory of the events, oldest first: the one that the handler is
	// writing, if any, and the one that the handler has not taken yet, if any.
	releases []func()
	// wrote is true if something has been written since the last flush. ended is true if the handler has returned.
	wrote, ended bool
}

// offer adds an event that the handler has not taken yet.
func (d *delivery) offer(release func()) {
	d.mu.Lock()
	ended := d.ended
	if !ended {
		d.releases = append(d.releases, release)
	}
	d.mu.Unlock()
	if ended {
		release()
	}
}

// taken records that the handler has taken the newest event, which implies that all earlier events have been written, and
// releases the memory of the earlier events.
func (d *delivery) taken() { d.release(func(n int) int { return n - 1 }) }

// end records that the handler has returned, and releases the memory of all events.
func (d *delivery) end() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.release(func(n int) int { return n })
}

// release releases the memory of the oldest events. count returns how many, given the total number of events.
func (d *delivery) release(count func(int) int) {
	d.mu.Lock()
	n := max(count(len(d.releases)), 0)
	done := d.releases[:n]
	d.releases = d.releases[n:]
	d.mu.Unlock()
	for _, release := range done {
		release()
	}
}

type deliveryKey struct{}

// deliveryOf returns the delivery of a watch, or one that has ended if the watch is not served over HTTP.
func deliveryOf(ctx context.Context) *delivery {
	if d, ok := ctx.Value(deliveryKey{}).(*delivery); ok {
		return d
	}
	return &delivery{ended: true}
}

// withDelivery returns a handler that tracks the events of watches. stall is maxStall, except in tests.
func withDelivery(h http.Handler, stall time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isWatch(r) {
			h.ServeHTTP(w, r)
			return
		}
		d := &delivery{}
		defer d.end()
		t := &tracked{w, d, stall}
		t.deadline(time.Time{})       // that of withAnswer is for other requests
		defer t.deadline(time.Time{}) // the connection may be reused for another request
		h.ServeHTTP(responsewriter.WrapForHTTP1Or2(t), r.WithContext(context.WithValue(r.Context(), deliveryKey{}, d)))
	})
}

// tracked is the response of a watch.
type tracked struct {
	http.ResponseWriter
	delivery *delivery
	stall    time.Duration
}

var _ responsewriter.UserProvidedDecorator = &tracked{}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Write implements http.ResponseWriter. Write and Flush block while the client does not read.
func (t *tracked) Write(data []byte) (int, error) {
	t.delivery.mu.Lock()
	t.delivery.wrote = true
	t.delivery.mu.Unlock()
	t.deadline(time.Now().Add(t.stall))
	return t.ResponseWriter.Write(data)
}

// Flush implements http.Flusher. Once it returns, the event that was written last no longer takes memory.
func (t *tracked) Flush() {
	if f, ok := t.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	t.delivery.mu.Lock()
	wrote := t.delivery.wrote
	t.delivery.wrote = false
	t.delivery.mu.Unlock()
	if wrote {
		t.deadline(time.Time{}) // the deadline must not end an idle watch
		t.delivery.release(func(n int) int { return min(n, 1) })
	}
}

func (t *tracked) deadline(at time.Time) {
	_ = http.NewResponseController(t.ResponseWriter).SetWriteDeadline(at) // if the connection does not support deadlines, only the limits on memory apply
}
