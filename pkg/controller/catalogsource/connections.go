package catalogsource

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	cataloggrpc "github.com/remit-olm/remit/pkg/catalog/grpc"
)

const (
	// A registry whose content was refused is asked again after a pause that doubles.
	firstReload = 10 * time.Second
	lastReload  = 5 * time.Minute
	// One that was too slow is left alone for longer, even where it connects again.
	firstSlowReload = time.Minute
	lastSlowReload  = 15 * time.Minute
)

// connections is a manager.Runnable that owns the connections to registries: one goroutine each,
// which sleeps in WaitForStateChange and wakes the CatalogSource when there is something to say.
type connections struct {
	budget *budget
	wake   func(types.NamespacedName)
	lanes  *lanes

	mu      sync.Mutex
	running context.Context // nil until Start
	group   sync.WaitGroup
	byKey   map[types.NamespacedName]*connection
	places  *places
	serial  int
}

type connection struct {
	origin, target string
	holder         holder
	// conn is nil where nobody is to be dialled.
	conn *cataloggrpc.Conn
	// cancel ends the goroutine; nil until it is launched.
	cancel context.CancelFunc
	// pause is the one after the last load, which failed; resume its end, where it was too slow. They are the goroutine's.
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
	c.places = placesForConnections(budget.exempt, func(key types.NamespacedName) { c.wake(key) })
	return c
}

// Start lets the goroutines run until ctx ends.
func (c *connections) Start(ctx context.Context) error {
	c.mu.Lock()
	c.running = ctx
	for key, e := range c.byKey {
		c.launch(key, e)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	for key := range c.byKey {
		c.remove(key)
	}
	c.mu.Unlock()
	c.group.Wait()
	return nil
}

// ensure returns the state and content of a CatalogSource's connection, which it makes if there is none to this target yet.
// Content stays while the origin is the same: another target is then another server of it. An empty target dials nobody.
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

// replace ends the connection of a CatalogSource, if any, and makes one to a target where there is a place. The caller holds the lock.
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
		next.inherit(old)
	}
	c.byKey[key] = next
	c.launch(key, next)
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

// inherit has the content that an earlier connection listed be read through this one.
func (e *connection) inherit(old *connection) {
	old.mu.Lock()
	defer old.mu.Unlock()
	if e.good = old.good; e.good == nil || e.conn == nil {
		return
	}
	own := *e.good
	own.Reader = &cataloggrpc.Reader{Client: e.conn}
	e.good = &own
}

func (c *connections) drop(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

// remove ends a connection; its goroutine follows. The caller holds the lock.
func (c *connections) remove(key types.NamespacedName) {
	c.places.leave(key)
	e, ok := c.byKey[key]
	if !ok {
		return
	}
	delete(c.byKey, key)
	c.budget.release(e.holder)
	if e.cancel != nil {
		e.cancel()
	}
	if e.conn != nil {
		_ = e.conn.Close()
	}
}

// launch starts the goroutine of a connection once there is a context to run it under. The caller
// holds the lock.
func (c *connections) launch(key types.NamespacedName, e *connection) {
	if e.conn == nil || c.running == nil || c.running.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(c.running)
	e.cancel = cancel
	c.group.Go(func() {
		defer cancel()
		c.follow(ctx, key, e)
	})
}

// follow acts on each state of a connection and returns when the connection is closed.
func (c *connections) follow(ctx context.Context, key types.NamespacedName, e *connection) {
	for ctx.Err() == nil {
		state := e.conn.State()
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

// show notes a state. While gRPC tries again after a failure, the failure stays on show: a status
// that flaps with every attempt tells nobody anything.
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

// loadUntilGood lists the registry's content, again after a pause where it was refused, for as long
// as the connection stands. The connection counts as ready once its content is there.
func (c *connections) loadUntilGood(ctx context.Context, key types.NamespacedName, e *connection) {
	for ctx.Err() == nil {
		if rest := time.Until(e.resume); rest > 0 && c.changesWithin(ctx, e, rest) {
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

// pauseAfter notes how long a registry is left alone after a load, and says whether it was too slow.
func (e *connection) pauseAfter(err error) bool {
	var why slow
	switch {
	case err == nil:
		e.pause = 0
	case errors.As(err, &why):
		e.pause = min(max(2*e.pause, firstSlowReload), lastSlowReload)
		e.resume = time.Now().Add(e.pause)
		return true
	default:
		e.pause = min(max(2*e.pause, firstReload), lastReload)
	}
	return false
}

// list lists a registry. What is listed counts while it grows, where it is more than the content that it replaces, and while it
// waits for its turn.
func (c *connections) list(ctx context.Context, key types.NamespacedName, e *connection, client cataloggrpc.RegistryClient) (*catalog.Snapshot, error) {
	before := c.budget.holds(e.holder)
	snap, err := c.lanes.load(ctx, key.Namespace, client, cataloggrpc.Room{
		Max:  c.budget.limits(key.Namespace).Kept,
		Take: func(kept int64) error { return c.budget.take(e.holder, max(kept, before)) },
	})
	if err == nil {
		err = c.budget.take(e.holder, snap.Size())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.byKey[key] != e:
		c.budget.release(e.holder) // it was let go meanwhile
	case err != nil:
		c.budget.restore(e.holder, before)
	}
	return snap, err
}

func (c *connections) changesWithin(ctx context.Context, e *connection, pause time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	return e.conn.WaitForStateChange(ctx, connectivity.Ready)
}
