package catalogsource

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	cataloggrpc "github.com/remit-olm/remit/pkg/catalog/grpc"
)

const (
	// maxLoads bounds how many registries are listed at once, and with it the memory that takes.
	maxLoads = 4
	// A registry whose content was refused is asked again after a pause that doubles.
	firstReload = 10 * time.Second
	lastReload  = 5 * time.Minute
)

// connections is a manager.Runnable that owns the connections to registries: one goroutine each,
// which sleeps in WaitForStateChange and wakes the CatalogSource when there is something to say.
type connections struct {
	budget *budget
	wake   func(types.NamespacedName)
	slots  chan struct{}

	mu      sync.Mutex
	running context.Context // nil until Start
	group   sync.WaitGroup
	byKey   map[types.NamespacedName]*connection
	serial  int
}

type connection struct {
	origin, target string
	holder         holder
	// conn is nil where nobody is to be dialled.
	conn *cataloggrpc.Conn
	// cancel ends the goroutine; nil until it is launched.
	cancel context.CancelFunc

	mu    sync.Mutex
	state connectivity.State
	content
}

func newConnections(budget *budget, wake func(types.NamespacedName)) *connections {
	return &connections{
		budget: budget,
		wake:   wake,
		slots:  make(chan struct{}, maxLoads),
		byKey:  map[types.NamespacedName]*connection{},
	}
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
		next, err := newConnection(origin, target)
		if err != nil {
			c.remove(key)
			return connectivity.TransientFailure, content{}, err
		}
		c.serial++
		next.holder = holder{fromAddress, key, c.serial}
		if ok && e.origin == origin {
			next.inherit(e)
		}
		c.remove(key)
		e = next
		c.byKey[key] = e
		c.launch(key, e)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state, e.content, nil
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
	for pause := firstReload; ; pause = min(2*pause, lastReload) {
		c.show(key, e, connectivity.Connecting)
		snap, err := c.load(ctx, e)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = c.hold(key, e, snap.Size())
		}
		e.mu.Lock()
		if e.state, e.err = connectivity.Ready, err; err == nil {
			e.good = snap
		} else {
			e.state = connectivity.TransientFailure
		}
		e.mu.Unlock()
		c.wake(key)
		if err == nil || c.changesWithin(ctx, e, pause) {
			return
		}
	}
}

// hold has new content counted, unless it was let go meanwhile.
func (c *connections) hold(key types.NamespacedName, e *connection, size int64) error {
	if err := c.budget.take(e.holder, size); err != nil {
		return err
	}
	c.mu.Lock()
	now := c.byKey[key]
	c.mu.Unlock()
	if now != e {
		c.budget.release(e.holder)
	}
	return nil
}

func (c *connections) load(ctx context.Context, e *connection) (*catalog.Snapshot, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return cataloggrpc.Load(ctx, e.conn)
}

func (c *connections) changesWithin(ctx context.Context, e *connection, pause time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	return e.conn.WaitForStateChange(ctx, connectivity.Ready)
}
