package scopedcache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kind holds everything of a kind in one representation: who claims which scopes, the feeds that serve them, and one
// store of objects with its handlers. At any time at most one feed serves an object.
type kind struct {
	cache   *Cache
	key     kindKey
	options KindOptions
	objects *objects

	mu sync.RWMutex
	// changed is closed and replaced when a read that waits should look again.
	changed chan struct{}
	// generation grows when objects are forgotten, so that a read can notice that it missed some.
	generation uint64
	cluster    *node
	namespaces map[string]*namespaceNode
	mapping    *meta.RESTMapping
	// running is true between the start and the end of the cache.
	running   bool
	wasSynced atomic.Bool
}

func newKind(c *Cache, key kindKey, options KindOptions, ownsClaims bool) *kind {
	k := &kind{cache: c, key: key, options: options, changed: make(chan struct{}), cluster: newNode(Cluster()), namespaces: map[string]*namespaceNode{}}
	k.objects = newObjects(nil)
	if ownsClaims && !c.options.KeepOwners {
		k.objects.deleted = c.events.gone
	}
	return k
}

// nodeOf returns the node of a scope. If make is true, it makes the node; otherwise it may return nil.
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

// ensure adds a claim. It returns true if it is new.
func (k *kind) ensure(owner OwnerRef, scope Scope) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.nodeOf(scope, true)
	if n.lingers != nil {
		n.lingers.Stop()
		n.lingers = nil
	}
	if _, ok := n.owners[owner]; ok {
		return false
	}
	n.owners[owner] = Syncing
	k.plan(scope)
	k.wake()
	return true
}

// release drops a claim. After the last one, the feed is kept for a while, so that a claim that comes back needs no
// request.
func (k *kind) release(owner OwnerRef, scope Scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.nodeOf(scope, false)
	if n == nil {
		return
	}
	delete(n.owners, owner)
	if linger := k.cache.options.linger(); linger > 0 && !n.claimed() && n.lingers == nil && n.feed != nil && !n.feed.state.refused() {
		n.lingers = time.AfterFunc(linger, func() { k.forget(scope) })
	}
	k.plan(scope)
	k.wake()
}

// forget ends the time that a scope lingers.
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

// start runs a feed for the node.
func (k *kind) start(n *node) {
	launch := k.cache.launch.Load()
	if n.feed != nil || !k.running || launch == nil {
		return
	}
	f := &feed{kind: k, scope: n.scope, hint: make(chan struct{}, 1), state: Syncing, since: time.Now(), missing: map[string]bool{}}
	n.feed = f
	k.cache.counts.starts.Inc()
	k.cache.counts.running.Add(1)
	f.cancel = (*launch)(f.run)
}

// stop ends the node's feed. The objects that it served are left to the caller.
func (k *kind) stop(n *node) {
	f := n.feed
	if f == nil {
		return
	}
	n.feed = nil
	f.stopped, f.serving, f.ready, f.collected = true, false, false, nil
	if f.stream != nil {
		f.stream.Stop()
	}
	f.cancel()
}

// wake tells reads that wait, and the owners of claims, that something has changed.
func (k *kind) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
	k.cache.events.dirty(k)
}

func (k *kind) setState(f *feed, state State, err error) {
	if f.state != state {
		f.since = time.Now()
		switch {
		case state == Denied:
			k.cache.counts.denied.Inc()
		case f.state == Denied && state == Live:
			k.cache.counts.recovered.Inc()
		}
	}
	f.state, f.err = state, err
}

// began is called before a feed's first request.
func (k *kind) began(ctx context.Context, f *feed, mapping *meta.RESTMapping) error {
	k.mu.Lock()
	before := k.mapping
	k.mapping = mapping
	clear(f.missing)
	k.mu.Unlock()
	if before == nil || before.Scope.Name() == mapping.Scope.Name() {
		return nil
	}
	// Another kind of the same name is served now. The reader makes keys as its scope requires.
	example, err := k.key.example(k.cache.options.Scheme)
	if err != nil {
		return err
	}
	return k.cache.Cache.RemoveInformer(ctx, example)
}

// answered is called with the server's answer to a request.
func (k *kind) answered(f *feed, verb string, err error) {
	if err != nil {
		f.endSync() // the reflector may retry for long: others need the slot
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return
	}
	switch {
	case apierrors.IsForbidden(err):
		f.missing[verb] = true
	case err != nil && (f.state == Live || f.state == Syncing):
		// The reflector itself retries if the server is overloaded or unreachable.
		k.setState(f, Backoff, err)
		k.wake()
	}
}

// opened is called with each watch that the server has accepted.
func (k *kind) opened(f *feed, opened watch.Interface, options metav1.ListOptions) watch.Interface {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.stream = newStream(opened, options.TimeoutSeconds)
	// A watch that begins with a list is current only after that.
	resumed := options.SendInitialEvents == nil
	if f.stopped {
		f.stream.Stop()
	} else if f.ready && resumed && f.state != Live {
		k.setState(f, Live, nil)
		k.wake()
	}
	return f.stream
}

// versionOf returns the last resource version that a feed has seen; "" if it begins anew.
func (k *kind) versionOf(f *feed) string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return f.version
}

// progressed is called with each resource version that the feed's watch has reached.
func (k *kind) progressed(f *feed, version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.saw(version)
}

// observe is called with each event of a feed.
func (k *kind) observe(f *feed, received any, deleted bool) error {
	obj, err := k.transformed(received)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return nil
	}
	version := obj.GetResourceVersion()
	known := f.floor(obj.GetNamespace(), obj.GetName())
	f.saw(version)
	switch {
	case !f.serving && !f.ready:
	case !f.serving && deleted:
		delete(f.collected, keyOf(obj))
	case !f.serving:
		f.collected[keyOf(obj)] = obj
	case known != "" && !older(known, version):
		// Another feed has reported this event before it handed the object over.
	case deleted:
		k.objects.remove(obj)
	default:
		k.objects.put(obj, false)
	}
	return nil
}

// listed is called with all objects of a feed's scope.
func (k *kind) listed(f *feed, list []any, version string) error {
	collected := make(map[string]client.Object, len(list))
	for _, received := range list {
		obj, err := k.transformed(received)
		if err != nil {
			return err
		}
		collected[keyOf(obj)] = obj
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return nil
	}
	f.ready = true
	k.setState(f, Live, nil)
	if period := k.cache.recheckPeriod(); f.stream != nil && period > 0 {
		f.stream.endAfter(period) // the server does not end a watch that began with a list so soon
	}
	if f.serving {
		k.replace(f, collected, version)
		f.saw(version)
	} else {
		f.collected, f.version = collected, version
		k.plan(f.scope)
	}
	k.wake()
	return nil
}

// A watch that has ended without an error is requested again after a moment, or after longer ones if none of them lasts.
const (
	again   = 50 * time.Millisecond
	settled = 5 * time.Second
)

var errEnded = errors.New("the watch has ended")

// ended is called when a feed has stopped watching. It returns the delay before the next attempt, and whether the
// server refused.
func (k *kind) ended(f *feed, err error, lasted time.Duration) (time.Duration, bool) {
	noMatch := meta.IsNoMatchError(err)
	if apierrors.IsNotFound(err) {
		meta.MaybeResetRESTMapper(k.cache.options.Mapper) // the kind may have gone
		_, mapErr := k.cache.options.Mapper.RESTMapping(k.key.gvk.GroupKind(), k.key.gvk.Version)
		noMatch = meta.IsNoMatchError(mapErr)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return 0, false
	}
	if lasted > settled {
		f.tries = 0
	}
	var invalid *scopeError
	before := f.state
	switch {
	case err == nil:
		// The watch has ended, and the next one begins with a list. Until then, it is not known what has changed.
		k.setState(f, Backoff, errEnded)
		k.wake()
	case apierrors.IsForbidden(err):
		k.refused(f, Denied, err, false)
	case noMatch:
		k.refused(f, Absent, &AbsentError{GVK: k.key.gvk, Err: err}, true)
	case errors.As(err, &invalid):
		k.refused(f, Invalid, err, false)
	default:
		k.setState(f, Backoff, err)
		k.wake()
	}
	if before != f.state {
		k.cache.log.V(1).Info("Watch state changed", "kind", k.key.gvk.String(), "scope", f.scope.String(), "state", f.state, "reason", reasonOf(f.err))
	}
	pause := k.cache.options.Retry.after(f.tries)
	if err == nil {
		pause = Retry{Initial: again, Max: k.cache.options.Retry.Max}.after(f.tries)
	}
	f.tries++
	f.next = time.Now().Add(pause)
	return pause, f.state.refused()
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// refused takes the scope away from a feed. The objects go with it; they are reported as deleted only if they are.
func (k *kind) refused(f *feed, state State, err error, deleted bool) {
	served := f.serving
	f.serving, f.ready, f.collected, f.version, f.floors = false, false, nil, "", nil
	same := f.state == state
	if !same {
		f.tries = 0
	}
	k.setState(f, state, err)
	if same && !served {
		return
	}
	k.plan(f.scope)
	if served {
		k.abandon(f.scope, deleted)
	}
	k.wake()
}

// abandon forgets the objects of a scope that no feed serves any longer.
func (k *kind) abandon(scope Scope, deleted bool) {
	for _, key := range k.objects.keysIn(scope) {
		obj, ok := k.objects.get(key)
		switch {
		case !ok || k.server(Object(obj.GetNamespace(), obj.GetName())) != nil:
			continue
		case deleted:
			k.objects.remove(obj)
		default:
			k.objects.forget(key)
		}
		k.generation++
	}
}

// server returns the feed that serves all objects of a scope, or nil.
func (k *kind) server(scope Scope) *feed {
	if k.cluster.serving() {
		return k.cluster.feed
	}
	ns := k.namespaces[scope.namespace]
	switch {
	case ns == nil || scope == Cluster():
		return nil
	case ns.serving():
		return ns.feed
	case scope.object:
		if n := ns.objects[scope.name]; n != nil && n.serving() {
			return n.feed
		}
	}
	return nil
}

func (k *kind) transformed(received any) (client.Object, error) {
	if k.options.Transform != nil {
		changed, err := k.options.Transform(received)
		if err != nil {
			return nil, err
		}
		received = changed
	}
	obj := received.(client.Object)
	if k.key.as != dynamicObjects {
		// The client leaves the kind out, or names that of the metadata.
		obj.GetObjectKind().SetGroupVersionKind(k.key.gvk)
	}
	return obj, nil
}

// run lets feeds start.
func (k *kind) run() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running = true
	k.plan(Cluster())
}

// close ends all feeds. Handlers end separately, because one of them may be waiting for the kind.
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

// each calls a function for each node.
func (k *kind) each(visit func(*node)) {
	visit(k.cluster)
	for _, ns := range k.namespaces {
		visit(ns.node)
		for _, n := range ns.objects {
			visit(n)
		}
	}
}

// recheck lets the server answer again: it ends the watches in a namespace, or in all of them for "", so that they are
// requested again from where they were, and wakes those that were refused.
func (k *kind) recheck(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.each(func(n *node) {
		f := n.feed
		if f == nil || namespace != "" && n.scope.namespace != namespace {
			return
		}
		if f.state == Live && f.stream != nil {
			f.stream.Stop()
			return
		}
		f.tries = 0
		select {
		case f.hint <- struct{}{}:
		default:
		}
	})
}

// recheckServer lets the server answer again for the watch that serves a scope, if that is a wider one.
func (k *kind) recheckServer(scope Scope) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.server(scope); f != nil && f.scope != scope && f.stream != nil {
		f.stream.Stop()
	}
}

// remove ends the kind for good: its claims, feeds, objects and handlers.
func (k *kind) remove() {
	k.close()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cluster, k.namespaces = newNode(Cluster()), map[string]*namespaceNode{}
	for _, key := range k.objects.index.ListKeys() {
		k.objects.forget(key)
	}
	k.generation++
	k.objects.handlers.end()
}
