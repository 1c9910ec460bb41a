package scopedcache

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type ownerKey struct{}

// WithOwner returns a context for reads that add claims on behalf of the owner: a Get claims the object, a List in a
// namespace claims the namespace, and any other List claims the cluster. The first such read waits for the first list. The
// context also works with the manager's client, which passes it to the cache.
func WithOwner(ctx context.Context, owner OwnerRef) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// Get reads an object from the cache. NotFound means that the object does not exist, and is returned only while a watch
// shows that. The other errors are NotCoveredError, DeniedError, AbsentError and NotSyncedError.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	kindKey, err := c.keyOf(obj)
	if err != nil {
		return err
	}
	scope := Object(key.Namespace, key.Name)
	if k := c.known(kindKey); k != nil && ctx.Value(ownerKey{}) == nil && k.copyTo(obj, scope, opts) {
		return nil // the usual case; an object that is not found may just have been dropped
	}
	return c.get(ctx, kindKey, key, obj, opts)
}

// copyTo copies the stored object of a scope to an object, as controller-runtime's cache does, but without looking up its
// kind. It returns false if no live watch serves the scope, or if there is no such object.
func (k *kind) copyTo(obj client.Object, scope Scope, opts []client.GetOption) bool {
	if !k.isLive(scope) {
		return false
	}
	stored, ok := k.objects.get(scope.key())
	if !ok || reflect.TypeOf(stored) != reflect.TypeOf(obj) {
		return false
	}
	options := client.GetOptions{}
	options.ApplyOptions(opts)
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(k.copyOf(stored, options.UnsafeDisableDeepCopy)).Elem())
	return true
}

// copyOf returns a copy of a stored object or, if the options of its kind or of a read disable copies, the object itself.
func (k *kind) copyOf(stored client.Object, disabled *bool) client.Object {
	if ptr.Deref(k.options.UnsafeDisableDeepCopy, false) || ptr.Deref(disabled, false) {
		return stored
	}
	out := stored.DeepCopyObject().(client.Object)
	out.GetObjectKind().SetGroupVersionKind(k.key.gvk)
	return out
}

// get implements Get for objects without a live watch and for objects that were not found.
func (c *Cache) get(ctx context.Context, kindKey kindKey, key client.ObjectKey, obj client.Object, opts []client.GetOption) error {
	scope := Object(key.Namespace, key.Name)
	k, err := c.covered(ctx, kindKey, scope)
	if k == nil {
		if c.options.Uncovered == ReadUncovered {
			return c.live.Get(ctx, key, obj, opts...)
		}
		return err
	}
	deadline := time.Now().Add(c.options.ReadTimeout)
	for {
		generation := k.generationOf(scope)
		interrupted, err := k.await(ctx, deadline, scope)
		if err != nil {
			return err
		}
		err = c.Cache.Get(ctx, key, obj, opts...)
		switch {
		case err == nil || !apierrors.IsNotFound(err):
			return err
		case interrupted != nil:
			return k.notSynced(scope, interrupted)
		case k.generationOf(scope) == generation && c.reads(ctx, k):
			return err
		}
	}
}

// reads reports whether controller-runtime's cache reads the store of the kind. While RemoveInformer runs, that cache
// may still read the store of the removed kind; reads then detaches that store, and the next read uses the new one.
func (c *Cache) reads(ctx context.Context, k *kind) bool {
	if k.attached.Load() && c.known(k.key) == k {
		return true // a store that is attached later belongs to the current kind
	}
	example, err := k.key.example(c.options.Scheme)
	if err != nil {
		return true // cannot happen: the kind was in the scheme when it was claimed
	}
	found, err := c.Cache.GetInformer(ctx, example, cache.BlockUntilSynced(false))
	if own, ok := found.(*informer); err != nil || !ok || own.kind == k {
		return true
	}
	_ = c.Cache.RemoveInformer(ctx, example) // fails only if the kind is not in the scheme
	return false
}

// covered adds a claim for the context's owner, if there is one, and returns the kind if a claim covers the scope. If none
// does, it returns nil and a NotCoveredError.
func (c *Cache) covered(ctx context.Context, key kindKey, scope Scope) (*kind, error) {
	if owner, ok := ctx.Value(ownerKey{}).(OwnerRef); ok && !c.owns(owner, key, scope) {
		example, err := key.example(c.options.Scheme)
		if err != nil {
			return nil, err
		}
		if _, err := c.claim(owner, Claim{Kind: example, Scope: scope}); err != nil {
			return nil, err
		}
	}
	k := c.known(key)
	if k == nil || !k.covers(scope, c.options.PartialList) {
		return nil, &NotCoveredError{GVK: key.gvk, Scope: scope}
	}
	if !c.started.Load() {
		return nil, &cache.ErrCacheNotStarted{}
	}
	return k, nil
}

// owns reports whether a claim of the owner covers the scope. In a session, it also marks that claim as renewed.
func (c *Cache) owns(owner OwnerRef, key kindKey, scope Scope) bool {
	if c.renew(owner, ownedScope{kind: key, scope: scope}, true) {
		return true
	}
	wider := []Scope{Cluster()}
	if scope.object {
		wider = append(wider, Namespace(scope.namespace))
	}
	k := c.known(key)
	return k != nil && slices.ContainsFunc(wider, func(s Scope) bool {
		return s != scope && !k.isRefused(s) && c.renew(owner, ownedScope{kind: key, scope: s}, false)
	})
}

// renew reports whether the owner has a claim. In a session, it marks the claim as renewed if first is true. Otherwise,
// the claim counts only if it was renewed before, because it may end with the session.
func (c *Cache) renew(owner OwnerRef, owned ownedScope, first bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.owners[owner][owned]; !ok {
		return false
	}
	if session := c.sessions[owner]; session != nil {
		if _, again := session.again[owned]; !again && !first {
			return false
		}
		session.again[owned] = struct{}{}
	}
	return true
}

// isRefused reports whether the watch of a claimed scope is refused. A narrower claim may still succeed.
func (k *kind) isRefused(scope Scope) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.state(scope).refused()
}

// covers reports whether a claim covers the scope or, for a List of the cluster, at least one namespace.
func (k *kind) covers(scope Scope, partial bool) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.isClaimed(scope) {
		return true
	}
	if scope == Cluster() {
		for _, ns := range k.namespaces {
			if ns.claimed() || partial && len(ns.objects) > 0 {
				return true
			}
		}
		return false
	}
	ns := k.namespaces[scope.namespace]
	return !scope.object && ns != nil && partial && len(ns.objects) > 0
}

// isClaimed reports whether a claim covers the scope. The caller holds the mutex.
func (k *kind) isClaimed(scope Scope) bool {
	ns := k.namespaces[scope.namespace]
	switch {
	case k.cluster.claimed():
		return true
	case ns == nil || scope == Cluster():
		return false
	case ns.claimed():
		return true
	}
	n := ns.objects[scope.name]
	return scope.object && n != nil && n.claimed()
}

// isLive reports whether a claim covers a scope and a live watch serves it.
func (k *kind) isLive(scope Scope) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.live(scope)
}

// live implements isLive. The caller holds the mutex.
func (k *kind) live(scope Scope) bool {
	if !k.running || !k.isClaimed(scope) {
		return false
	}
	f := k.server(scope)
	return f != nil && f.state == Live
}

// await waits until a feed serves a scope. If the feed's watch is interrupted, interrupted is the reason. If all feeds
// are refused, or the deadline of the read has passed, await returns an error.
func (k *kind) await(ctx context.Context, deadline time.Time, scope Scope) (interrupted, err error) {
	var timeout <-chan time.Time
	for {
		k.mu.RLock()
		f, pending, refused := k.lookup(scope)
		changed := k.changed
		if f != nil && f.state != Live {
			interrupted = cmp.Or(f.err, errEnded)
		}
		k.mu.RUnlock()
		if f != nil {
			return interrupted, nil
		}
		if !pending {
			return nil, refused
		}
		if timeout == nil {
			timer := time.NewTimer(time.Until(deadline))
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, k.notSynced(scope, ctx.Err())
		case <-timeout:
			return nil, k.notSynced(scope, refused)
		}
	}
}

// lookup returns the feed that serves a scope. If there is none, pending is true if there may be one soon, and why is the
// reason for its absence.
func (k *kind) lookup(scope Scope) (serving *feed, pending bool, why error) {
	if !k.running || !k.isClaimed(scope) {
		return nil, false, &NotCoveredError{GVK: k.key.gvk, Scope: scope}
	}
	if f := k.server(scope); f != nil && f.state != Syncing { // a feed may have a list but no watch yet
		return f, false, nil
	}
	for _, n := range k.claims(scope) { // narrowest first
		switch {
		case n.feed == nil:
			pending = true
		case !n.feed.state.refused():
			pending = true
			why = n.feed.err
		case why == nil:
			why = k.refusal(n.feed)
		}
	}
	return nil, pending, why
}

// claims returns the claimed nodes that cover a scope, narrowest first.
func (k *kind) claims(scope Scope) []*node {
	var out []*node
	if ns := k.namespaces[scope.namespace]; ns != nil && scope != Cluster() {
		if n := ns.objects[scope.name]; scope.object && n != nil && n.claimed() {
			out = append(out, n)
		}
		if ns.claimed() {
			out = append(out, ns.node)
		}
	}
	if k.cluster.claimed() {
		out = append(out, k.cluster)
	}
	return out
}

// refusal returns the error of a feed that was refused.
func (k *kind) refusal(f *feed) error {
	if f.state == Denied && k.mapping != nil {
		return &DeniedError{Resource: k.mapping.Resource, Scope: f.scope, Missing: f.missingVerbs(), Err: f.err}
	}
	return f.err
}

func (k *kind) notSynced(scope Scope, err error) error {
	return &NotSyncedError{GVK: k.key.gvk, Scope: scope, Err: err}
}

// mostDropped is the maximum number of namespaces for which a kind records when objects were dropped. It is also the maximum
// number of dropped objects without claims that are recorded.
const mostDropped = 10_000

// dropped records that an object of a namespace was dropped. The caller must hold the mutex.
func (k *kind) dropped(namespace string) {
	k.generation++
	if len(k.droppedIn) >= mostDropped {
		clear(k.droppedIn)
		k.droppedElsewhere = k.generation
	}
	k.droppedIn[namespace] = k.generation
}

// generationOf returns a number that increases when objects in one of the scopes are dropped.
func (k *kind) generationOf(scopes ...Scope) uint64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	out := k.droppedElsewhere
	for _, s := range scopes {
		if s == Cluster() {
			return k.generation
		}
		out = max(out, k.droppedIn[s.namespace])
	}
	return out
}
