package scopedcache

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

type ownerKey struct{}

// WithOwner returns a context with which reads claim what they read, on behalf of the owner: a Get claims the object, a
// List of a namespace the namespace, and another List the cluster. The first such read waits for the first list. Pass the
// context to the client of the manager; it hands it on to the cache.
func WithOwner(ctx context.Context, owner OwnerRef) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// Get reads an object from the cache. NotFound means that the object does not exist: it is returned only while a watch
// shows that. Other errors are NotCoveredError, DeniedError, AbsentError and NotSyncedError.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	kindKey, err := c.keyOf(obj)
	if err != nil {
		return err
	}
	scope := Object(key.Namespace, key.Name)
	if k := c.known(kindKey); k != nil && ctx.Value(ownerKey{}) == nil && k.isLive(scope) {
		// The usual case. An object that is missing may have been forgotten meanwhile.
		if err := c.Cache.Get(ctx, key, obj, opts...); !apierrors.IsNotFound(err) {
			return err
		}
	}
	return c.get(ctx, kindKey, key, obj, opts)
}

// get is Get of what is not live, or not found.
func (c *Cache) get(ctx context.Context, kindKey kindKey, key client.ObjectKey, obj client.Object, opts []client.GetOption) error {
	scope := Object(key.Namespace, key.Name)
	k, err := c.covered(ctx, kindKey, scope)
	if k == nil {
		if c.options.Uncovered == ReadUncovered {
			return c.live.Get(ctx, key, obj, opts...)
		}
		return err
	}
	for {
		connected, generation, err := k.await(ctx, scope)
		if err != nil {
			return err
		}
		err = c.Cache.Get(ctx, key, obj, opts...)
		switch {
		case err == nil || !apierrors.IsNotFound(err):
			return err
		case !connected:
			return k.notSynced(scope, nil)
		case k.isCurrent(generation):
			return err
		}
	}
}

// List reads objects from the cache: those of a namespace, or, without one, those of the cluster. If the whole
// cluster is not claimed, these are the objects of all claimed namespaces. It never returns a part only because something is
// missing: the errors are those of Get; Options.PartialList changes that.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, c.options.Scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	scope := Namespace(options.Namespace)
	k, err := c.covered(ctx, kindKey{gvk: gvk, as: representationOf(list)}, scope)
	if k == nil {
		if c.options.Uncovered == ReadUncovered {
			return c.live.List(ctx, list, opts...)
		}
		return err
	}
	for {
		namespaces, generation, err := k.awaitAll(ctx, scope)
		if err != nil && !c.options.PartialList {
			return err
		}
		if namespaces == nil || err != nil {
			if listErr := c.Cache.List(ctx, list, opts...); listErr != nil {
				return listErr
			}
		} else if listErr := c.listEach(ctx, list, namespaces, options); listErr != nil {
			return listErr
		}
		if err != nil {
			return err
		}
		if done, err := k.settledRead(ctx, scope, generation); done {
			return err
		}
	}
}

// settledRead returns true if a read is complete: no objects were forgotten since a generation, or the context has ended.
func (k *kind) settledRead(ctx context.Context, scope Scope, generation uint64) (done bool, err error) {
	if k.isCurrent(generation) {
		return true, nil
	}
	if ctx.Err() != nil {
		return true, k.notSynced(scope, ctx.Err())
	}
	return false, nil
}

// listEach lists namespaces one after the other.
func (c *Cache) listEach(ctx context.Context, list client.ObjectList, namespaces []string, options client.ListOptions) error {
	var all []runtime.Object
	limit := options.Limit
	for _, namespace := range namespaces {
		if limit > 0 {
			if options.Limit = limit - int64(len(all)); options.Limit <= 0 {
				break
			}
		}
		options.Namespace = namespace
		if err := c.Cache.List(ctx, list, &options); err != nil {
			return err
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		all = append(all, items...)
	}
	return meta.SetList(list, all)
}

// covered returns the kind if a claim covers the scope, after adding a claim of the context's owner. Without a claim it
// returns nil and a NotCoveredError.
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

// owns returns true if a claim of the owner covers the scope. In a session it also counts as asked again.
func (c *Cache) owns(owner OwnerRef, key kindKey, scope Scope) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wider := []Scope{scope, Cluster()}
	if scope.object {
		wider = append(wider, Namespace(scope.namespace))
	}
	for _, s := range wider {
		owned := ownedScope{kind: key, scope: s}
		if _, ok := c.owners[owner][owned]; !ok || s != scope && c.kinds[key].isRefused(s) {
			continue
		}
		if session := c.sessions[owner]; session != nil {
			if _, again := session.again[owned]; !again && s != scope {
				continue // the wider claim may end with the session
			}
			session.again[owned] = struct{}{}
		}
		return true
	}
	return false
}

// isRefused returns true if the watch of a claimed scope is refused, so that a narrower claim may be of use.
func (k *kind) isRefused(scope Scope) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.state(scope).refused()
}

// covers returns true if a claim covers the scope: the whole of it or, for a List of the cluster, namespaces in it.
func (k *kind) covers(scope Scope, partial bool) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.cluster.claimed() {
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
	switch {
	case ns == nil:
		return false
	case ns.claimed():
		return true
	case scope.object:
		n := ns.objects[scope.name]
		return n != nil && n.claimed()
	}
	return partial && len(ns.objects) > 0
}

// isLive returns true if a claim covers an object, and a watch shows its state.
func (k *kind) isLive(object Scope) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if !k.running {
		return false
	}
	claimed := k.cluster.claimed()
	if ns := k.namespaces[object.namespace]; !claimed && ns != nil {
		n := ns.objects[object.name]
		claimed = ns.claimed() || n != nil && n.claimed()
	}
	if !claimed {
		return false
	}
	f := k.server(object)
	return f != nil && f.state == Live
}

// await waits until a feed serves a scope. connected is false if its watch is interrupted. The error is the reason why
// there is none, or that it took too long.
func (k *kind) await(ctx context.Context, scope Scope) (connected bool, generation uint64, err error) {
	var timeout <-chan time.Time
	for {
		k.mu.RLock()
		f, pending, refused := k.lookup(scope)
		changed := k.changed
		generation = k.generation
		if f != nil {
			connected = f.state == Live
		}
		k.mu.RUnlock()
		if f != nil {
			return connected, generation, nil
		}
		if !pending {
			return false, 0, refused
		}
		if timeout == nil {
			timer := time.NewTimer(k.cache.options.ReadTimeout)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, 0, k.notSynced(scope, ctx.Err())
		case <-timeout:
			return false, 0, k.notSynced(scope, refused)
		}
	}
}

// lookup returns the feed that serves a scope. If there is none, it returns whether there may be one soon, and why there
// is none now.
func (k *kind) lookup(scope Scope) (serving *feed, pending bool, why error) {
	claims := k.claims(scope)
	if len(claims) == 0 || !k.running {
		return nil, false, &NotCoveredError{GVK: k.key.gvk, Scope: scope}
	}
	if f := k.server(scope); f != nil {
		return f, false, nil
	}
	for _, n := range claims { // the narrowest first
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

// claims returns the nodes that are claimed and cover a scope, the narrowest first.
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

// isCurrent returns true if no objects were forgotten since a generation.
func (k *kind) isCurrent(generation uint64) bool {
	return k.current() == generation
}

// awaitAll waits until a scope can be listed. It returns the namespaces to list one by one, or nil if the scope can be
// listed as it is. With an error and Options.PartialList, what is served can be listed.
func (k *kind) awaitAll(ctx context.Context, scope Scope) (namespaces []string, generation uint64, err error) {
	parts, each := k.parts(scope)
	if len(parts) == 0 { // only single objects are claimed
		return nil, k.current(), &GapError{Errs: []error{&NotCoveredError{GVK: k.key.gvk, Scope: scope}}}
	}
	generation = k.current()
	var gaps []error
	for _, part := range parts {
		_, _, err := k.await(ctx, part)
		switch {
		case err != nil && !k.cache.options.PartialList:
			return nil, 0, err
		case err != nil:
			gaps = append(gaps, err)
		}
		if each {
			namespaces = append(namespaces, part.namespace)
		}
	}
	if len(gaps) > 0 {
		return nil, generation, &GapError{Errs: gaps}
	}
	return namespaces, generation, nil
}

// parts returns the scopes that make up a scope: itself if it is claimed as a whole, or else the claimed namespaces. each
// is true if these have to be listed one by one, because the stored objects include others.
func (k *kind) parts(scope Scope) (parts []Scope, each bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if len(k.claims(scope)) > 0 {
		return []Scope{scope}, false
	}
	if scope != Cluster() {
		return nil, false
	}
	for name, ns := range k.namespaces {
		if ns.claimed() {
			parts = append(parts, Namespace(name))
		} else if ns.feed != nil || len(ns.objects) > 0 {
			each = true
		}
	}
	return parts, each || k.cluster.feed != nil
}

// current returns the generation of the stored objects.
func (k *kind) current() uint64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.generation
}
