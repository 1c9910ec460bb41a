package scopedcache

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
)

// kind is the state of one kind in one representation: the claimed scopes with their owners, the feeds that serve them, and
// one store of objects with its handlers. At most one feed serves an object at any time.
type kind struct {
	cache   *Cache
	key     kindKey
	options KindOptions
	objects *objects

	mu sync.RWMutex
	// changed is closed and replaced whenever waiting reads should check again.
	changed chan struct{}
	// generation increases when objects are dropped, so that reads can detect that they may have missed some. droppedIn
	// contains the generation of the last drop in each namespace, and droppedElsewhere is an upper bound for all other
	// namespaces.
	generation, droppedElsewhere uint64
	droppedIn                    map[string]uint64
	cluster                      *node
	namespaces                   map[string]*namespaceNode
	mapping                      *meta.RESTMapping
	discovery                    discovery
	// running is true while the cache is running.
	running   bool
	wasSynced atomic.Bool
	// attached is true once controller-runtime's cache reads the kind's store.
	attached atomic.Bool
	// lists contains the slots for the kind's first lists. There are half as many as for the cache, so that other kinds
	// do not wait for this one.
	lists *shares

	// The cache's mutex guards the following fields.

	// claimed is the number of claims.
	claimed int
	// pinned is true if the kind is kept even without claims.
	pinned bool
}

func newKind(c *Cache, key kindKey, options KindOptions, ownsClaims bool) *kind {
	k := &kind{cache: c, key: key, options: options, changed: make(chan struct{}), cluster: newNode(Cluster()), namespaces: map[string]*namespaceNode{}, droppedIn: map[string]uint64{}, pinned: ownsClaims, lists: newShares(max(1, c.options.Concurrency/2), c.options.limits.slot)}
	k.objects = newObjects(k.mu.RLocker())
	if ownsClaims && !c.options.KeepOwners {
		k.objects.deleted, k.objects.added, k.objects.owners = c.events.gone, c.events.exists, c.ownerUIDs
	}
	return k
}

// nodeOf returns the node of a scope. If there is none, it creates one if create is true, and otherwise returns nil.
func (k *kind) nodeOf(scope Scope, create bool) *node {
	if scope == Cluster() {
		return k.cluster
	}
	ns := k.namespaces[scope.namespace]
	if ns == nil {
		if !create {
			return nil
		}
		ns = &namespaceNode{node: newNode(Namespace(scope.namespace)), objects: map[string]*node{}}
		k.namespaces[scope.namespace] = ns
	}
	if !scope.object {
		return ns.node
	}
	n := ns.objects[scope.name]
	if n == nil && create {
		n = newNode(scope)
		ns.objects[scope.name] = n
	}
	return n
}

// ownersOf returns the owners of the claims of a scope.
func (k *kind) ownersOf(scope Scope) []OwnerRef {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if n := k.nodeOf(scope, false); n != nil {
		return slices.Collect(maps.Keys(n.owners))
	}
	return nil
}

// update adds and releases claims of an owner in the given scopes according to the cache's claims. It looks up the claims when
// it runs, so that the result of concurrent calls does not depend on their order.
func (k *kind) update(owner OwnerRef, scopes ...Scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed := map[Scope]struct{}{}
	for _, scope := range scopes {
		follow := k.release
		if k.cache.claims(owner, k, scope) {
			follow = k.ensure
		}
		if !follow(owner, scope) {
			continue
		}
		if len(scopes) > 1 && scope.object {
			scope = Namespace(scope.namespace) // plan once for all objects
		}
		changed[scope] = struct{}{}
	}
	for scope := range changed {
		k.plan(scope)
	}
	if len(changed) > 0 {
		k.wake()
	}
}

// ensure adds a claim. It returns true if the claim is new. The caller holds the mutex and must call plan.
func (k *kind) ensure(owner OwnerRef, scope Scope) bool {
	n := k.nodeOf(scope, true)
	if n.lingers != nil {
		n.lingers.Stop()
		n.lingers = nil
	}
	if _, ok := n.owners[owner]; ok {
		return false
	}
	n.owners[owner] = k.state(scope)
	if owner.GVK.Group == builtInGroup {
		k.wasSynced.Store(false) // controllers also wait for this claim
	}
	return true
}

// release drops a claim. After the last one, the feed is kept for Options.Linger, so that a new claim needs no request. It
// returns true if there was a claim. The caller holds the mutex and must call plan.
func (k *kind) release(owner OwnerRef, scope Scope) bool {
	n := k.nodeOf(scope, false)
	if n == nil {
		return false
	}
	if _, ok := n.owners[owner]; !ok {
		return false
	}
	delete(n.owners, owner)
	if linger := k.cache.options.linger(); linger > 0 && !n.claimed() && n.lingers == nil && n.feed != nil && !n.feed.state.refused() {
		n.lingers = time.AfterFunc(linger, func() { k.forget(scope) })
	}
	return true
}

// forget immediately ends the watch of a scope that Linger keeps open after its last claim.
func (k *kind) forget(scope Scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.nodeOf(scope, false)
	if n == nil || n.lingers == nil {
		return
	}
	n.lingers = nil
	k.plan(scope)
	k.wake()
}

// start starts a feed for the node, if it has none and the cache is running.
func (k *kind) start(n *node) {
	launch := k.cache.launch.Load()
	if n.feed != nil || !k.running || launch == nil {
		return
	}
	f := &feed{kind: k, scope: n.scope, hint: make(chan struct{}, 1), state: Syncing, since: time.Now(), refused: map[string]bool{}}
	n.feed = f
	k.cache.counts.starts.Inc()
	k.cache.counts.running.Add(1)
	f.cancel = (*launch)(f.run)
}

// stop ends the node's feed. It does not wait for the end of the feed's watch, which can take a long time if the connection
// does not close. The caller must handle the objects that the feed served.
func (k *kind) stop(n *node) {
	f := n.feed
	if f == nil {
		return
	}
	n.feed = nil
	f.stopped, f.serving, f.ready, f.collected = true, false, false, nil
	f.cancel()
}

// wake notifies waiting reads and the owners of claims about a change.
func (k *kind) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
	k.cache.events.dirty(k)
}

// run starts the feeds.
func (k *kind) run() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = true
	k.plan(Cluster())
}

// close ends all feeds. Handlers are closed separately, because one of them may be waiting for the kind's mutex.
func (k *kind) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = false
	k.each(func(n *node) {
		if n.lingers != nil {
			n.lingers.Stop()
			n.lingers = nil
		}
		k.stop(n)
	})
	k.wake()
}

// each calls visit for each node.
func (k *kind) each(visit func(*node)) {
	visit(k.cluster)
	for _, ns := range k.namespaces {
		visit(ns.node)
		for _, n := range ns.objects {
			visit(n)
		}
	}
}

// remove permanently removes the kind's claims, feeds, objects and handlers.
func (k *kind) remove() {
	k.close()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cluster, k.namespaces = newNode(Cluster()), map[string]*namespaceNode{}
	for _, key := range k.objects.index.ListKeys() {
		k.objects.forget(key)
	}
	k.generation++
	k.droppedElsewhere = k.generation
	k.objects.handlers.end()
}
