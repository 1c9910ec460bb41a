package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	cataloggrpc "github.com/remit-olm/remit/pkg/catalog/grpc"
	"github.com/remit-olm/remit/pkg/controller/kit"
)

const (
	// Bounds of the exponential backoff after a failed load.
	firstReload, lastReload = kit.FirstPause, kit.LastPause
	// Bounds of the longer backoff for a slow registry. It applies even if the registry reconnects.
	firstSlowReload = time.Minute
	// longestRest is the time between a load and the next one over another connection, and the maximum if the load failed: the
	// registry may have been restarted.
	longestRest    = 10 * time.Second
	lastSlowReload = 15 * time.Minute
)

// connections is a manager.Runnable that owns the connections to registries. Each connection has a goroutine that waits
// in WaitForStateChange and wakes the CatalogSource when its status may change.
type connections struct {
	budget *budget
	wake   func(types.NamespacedName)
	lanes  *loadLanes

	kit.Background

	mu     sync.Mutex
	byKey  map[types.NamespacedName]*connection
	places *places
	serial int
}

type connection struct {
	origin, target string
	holder         holder
	// conn is nil if there is no address to connect to.
	conn *cataloggrpc.Conn
	// end stops the goroutine; nil if there is none.
	end func()
	// pause is the delay after the last failed load. No load begins before resume, even over another connection. Only the goroutine
	// uses them.
	pause  time.Duration
	resume time.Time

	mu    sync.Mutex
	state connectivity.State
	content
}

func newConnections(budget *budget, wake func(types.NamespacedName)) *connections {
	c := &connections{
		budget: budget,
		wake:   wake,
		lanes:  newLoadLanes(budget.exempt),
		byKey:  map[types.NamespacedName]*connection{},
	}
	c.places = &places{
		max: maxConnections, has: fmt.Sprintf("connections to %d registries", maxConnections), then: "will connect",
		exempt: budget.exempt, wake: func(key types.NamespacedName) { c.wake(key) }, byNamespace: map[string]*namespacePlaces{},
	}
	return c
}

// Start runs the goroutines until ctx is done, and then closes all connections.
func (c *connections) Start(ctx context.Context) error {
	err := c.Background.Start(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.byKey {
		c.remove(key)
	}
	return err
}

// ensure returns the state and content of a CatalogSource's connection, and creates the connection if needed. The
// content is kept as long as the origin is the same, because a new target then serves the same content. If the target is
// empty, no connection is made.
func (c *connections) ensure(key types.NamespacedName, origin, target string) (connectivity.State, content, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok || e.origin != origin || e.target != target {
		var err error
		if e, err = c.replace(key, origin, target); err != nil {
			return connectivity.TransientFailure, content{}, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state, e.content, nil
}

// replace replaces the connection of a CatalogSource. It returns an error if the namespace has too many connections.
// The caller must hold the lock.
func (c *connections) replace(key types.NamespacedName, origin, target string) (*connection, error) {
	old := c.byKey[key]
	c.remove(key)
	if err := c.places.take(key); err != nil {
		return nil, err
	}
	next, err := newConnection(origin, target)
	if err != nil {
		c.places.leave(key)
		return nil, err
	}
	c.serial++
	next.holder = holder{fromAddress, key, c.serial}
	if old != nil && old.origin == origin {
		next.inherit(old, c.lanes)
	}
	c.byKey[key] = next
	if next.conn != nil {
		next.end = c.Launch(func(ctx context.Context) { c.follow(ctx, key, next) })
	}
	return next, nil
}

func newConnection(origin, target string) (*connection, error) {
	out := &connection{origin: origin, target: target, state: connectivity.Idle}
	if target == "" {
		return out, nil
	}
	var err error
	out.conn, err = cataloggrpc.NewConn(target)
	return out, err
}

// inherit takes over the content that an earlier connection listed, and reads manifests through this connection. Without an address,
// they cannot be read until there is one: the old connection is closed, so that a retry would always fail.
func (e *connection) inherit(old *connection, lanes *loadLanes) {
	old.mu.Lock()
	defer old.mu.Unlock()
	if old.good == nil {
		return
	}
	own := *old.good
	if own.IsUnreachable = e.conn == nil; own.IsUnreachable {
		own.Reader, own.Displays = cataloggrpc.Unreachable{}, cataloggrpc.Unreachable{}
	} else {
		reader := lanes.reader(e.holder.key.Namespace, e.conn)
		own.Reader, own.Displays = reader, reader
	}
	e.good = &own
}

func (c *connections) drop(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

// remove closes a connection, which stops its goroutine. The caller must hold the lock.
func (c *connections) remove(key types.NamespacedName) {
	c.places.leave(key)
	e, ok := c.byKey[key]
	if !ok {
		return
	}
	delete(c.byKey, key)
	c.budget.release(e.holder)
	if e.end != nil {
		e.end()
	}
	if e.conn != nil {
		_ = e.conn.Close()
	}
}

// follow handles each state of a connection until it is closed.
func (c *connections) follow(ctx context.Context, key types.NamespacedName, e *connection) {
	for ctx.Err() == nil {
		state := e.conn.GetState()
		switch state {
		case connectivity.Shutdown:
			return
		case connectivity.Idle:
			c.show(key, e, state)
			e.conn.Connect()
		case connectivity.Ready:
			c.loadUntilGood(ctx, key, e)
		default:
			c.show(key, e, state)
		}
		e.conn.WaitForStateChange(ctx, state)
	}
}

// show records a state, and wakes the CatalogSource if the state changed. While gRPC retries after a failure, the
// failure remains visible, so that the status does not flap.
func (c *connections) show(key types.NamespacedName, e *connection, state connectivity.State) {
	e.mu.Lock()
	trying := state == connectivity.Idle || state == connectivity.Connecting
	if e.state == state || (e.state == connectivity.TransientFailure && trying) {
		e.mu.Unlock()
		return
	}
	e.state = state
	e.mu.Unlock()
	c.wake(key)
}

// loadUntilGood lists the registry's content, retrying after failures, while the connection is ready. The state becomes
// Ready once the content is loaded.
func (c *connections) loadUntilGood(ctx context.Context, key types.NamespacedName, e *connection) {
	for ctx.Err() == nil {
		if !e.rest(ctx) {
			return
		}
		c.show(key, e, connectivity.Connecting)
		snap, err := c.list(ctx, key, e, e.conn)
		if ctx.Err() != nil {
			return
		}
		isSlow := e.pauseAfter(err)
		e.mu.Lock()
		if e.state, e.err = connectivity.Ready, err; err == nil {
			e.good = snap
		} else {
			e.state = connectivity.TransientFailure
		}
		e.mu.Unlock()
		c.wake(key)
		if err == nil || !isSlow && c.changesWithin(ctx, e, e.pause) {
			return
		}
	}
}

// rest waits until the next load may begin, even if the registry closes the connection and accepts another one meanwhile: otherwise,
// a registry could make Remit connect and load without a pause. It returns false if the connection is no longer ready.
func (e *connection) rest(ctx context.Context) bool {
	left := time.Until(e.resume)
	if left <= 0 {
		return true
	}
	pause := time.NewTimer(left)
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-pause.C:
		return e.conn.GetState() == connectivity.Ready
	}
}

// pauseAfter records the delay after a load and reports whether the registry was too slow.
func (e *connection) pauseAfter(err error) bool {
	var why slow
	switch {
	case err == nil:
		// A registry that closes its connection whenever it was listed would otherwise be listed without a pause.
		e.pause = 0
		e.resume = time.Now().Add(longestRest)
	case errors.As(err, &why):
		e.pause = min(max(2*e.pause, firstSlowReload), lastSlowReload)
		e.resume = time.Now().Add(e.pause)
		return true
	default:
		e.pause = min(max(2*e.pause, firstReload), lastReload)
		e.resume = time.Now().Add(min(e.pause, longestRest))
	}
	return false
}

// list reads the content of a registry. The listed content counts toward the budget as soon as it exceeds the content that it
// replaces, even while the load waits for its turn. What the registry has sent by then counts, too.
func (c *connections) list(ctx context.Context, key types.NamespacedName, e *connection, client cataloggrpc.RegistryClient) (*catalog.Snapshot, error) {
	before := c.budget.holds(e.holder)
	snap, err := c.lanes.load(ctx, key.Namespace, client, catalog.Kept{
		Max: c.budget.limits(key.Namespace).Kept,
		Take: func(kept int64) error {
			return c.budget.takeWith(e.holder, max(kept, before), cataloggrpc.UnreadBytes, before)
		},
	})
	if err == nil {
		err = c.budget.takeWith(e.holder, snap.Size(), 0, before)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.byKey[key] != e:
		c.budget.release(e.holder) // the connection was removed in the meantime
	case err != nil:
		c.budget.restore(e.holder, before)
	default:
		c.budget.satisfy(key)
	}
	return snap, err
}

func (c *connections) changesWithin(ctx context.Context, e *connection, pause time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	return e.conn.WaitForStateChange(ctx, connectivity.Ready)
}
