package scopedcache

import (
	"context"
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informer is the SharedIndexInformer of a kind. controller-runtime uses one informer, regardless of which watches
// exist.
type informer struct {
	kind   *kind
	resync time.Duration
	// reader is true for the informer that controller-runtime's cache reads from. It never waits, because
	// the cache's own reads have already waited.
	reader bool
}

func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithResyncPeriod(handler, i.resync)
}

func (i *informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	i.kind.mu.Lock()
	defer i.kind.mu.Unlock()
	return i.kind.objects.handlers.add(handler, period, i.HasSynced)
}

func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	period := i.resync
	if options.ResyncPeriod != nil {
		period = *options.ResyncPeriod
	}
	return i.AddEventHandlerWithResyncPeriod(handler, period)
}

func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok || r.of != i.kind.objects.handlers {
		return errors.New("the handler was not added to this informer")
	}
	r.of.remove(r)
	return nil
}

func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	i.kind.mu.Lock() // objects must not change while they are indexed
	defer i.kind.mu.Unlock()
	return i.kind.objects.index.AddIndexers(indexers)
}

func (i *informer) GetStore() toolscache.Store     { return i.kind.objects.index }
func (i *informer) GetIndexer() toolscache.Indexer { return i.kind.objects.index }

// HasSynced returns true once the first lists of the cache's own claims (those for primary kinds and the static claims) have
// ended. Refused claims do not delay controllers.
func (i *informer) HasSynced() bool { return i.reader || i.kind.synced() }

// HasSyncedChecker returns a checker that is always done. Use HasSynced instead.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker {
	return doneChecker{name: i.kind.key.gvk.String(), done: closedChannel}
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// IsStopped returns true after the cache has stopped.
func (i *informer) IsStopped() bool {
	h := i.kind.objects.handlers
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// Run does nothing, because claims start the feeds.
func (i *informer) Run(<-chan struct{}) {}

// RunWithContext does nothing, because claims start the feeds.
func (i *informer) RunWithContext(context.Context) {}

// GetController returns nil, because an informer has no single controller.
func (i *informer) GetController() toolscache.Controller { return nil }

// LastSyncResourceVersion returns "", because each feed has its own version.
func (i *informer) LastSyncResourceVersion() string { return "" }

// SetWatchErrorHandler is not supported: use Cache.Changes.
func (i *informer) SetWatchErrorHandler(toolscache.WatchErrorHandler) error {
	return errors.New("scopedcache does not support watch error handlers: use Cache.Changes")
}

// SetWatchErrorHandlerWithContext is not supported: use Cache.Changes.
func (i *informer) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errors.New("scopedcache does not support watch error handlers: use Cache.Changes")
}

// SetTransform accepts only nil: use Options.ByKind.
func (i *informer) SetTransform(transform toolscache.TransformFunc) error {
	if transform != nil {
		return errors.New("scopedcache does not support transforms of informers: use Options.ByKind")
	}
	return nil
}

var _ toolscache.SharedIndexInformer = (*informer)(nil)

// GetInformer returns the informer of a kind. Its handlers receive the events of all claims, regardless of which watch
// reports them. For a primary kind, GetInformer adds a claim for the whole cluster. It does not wait for the first
// list.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if err := c.claimPrimary(obj); err != nil {
		return nil, err
	}
	k, err := c.pin(obj)
	if err != nil {
		return nil, err
	}
	found, err := c.Cache.GetInformer(ctx, obj, opts...)
	if reader, ok := found.(*informer); ok {
		return &informer{kind: k, resync: reader.resync}, err
	}
	return found, err
}

// IndexField adds an index, which reads can use with client.MatchingFields.
func (c *Cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	k, err := c.pin(obj)
	if err != nil {
		return err
	}
	c.reads(ctx, k) // detach the store of a kind that was freed
	return c.Cache.IndexField(ctx, obj, field, extract)
}

// GetInformerForKind is like GetInformer, for a kind that is registered in the scheme.
func (c *Cache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := kindKey{gvk: gvk}.example(c.options.Scheme)
	if err != nil {
		return nil, err
	}
	return c.GetInformer(ctx, obj, opts...)
}

func (c *Cache) claimPrimary(obj client.Object) error {
	key, err := c.keyOf(obj)
	if err != nil || !c.primary[key] {
		return err
	}
	_, err = c.claim(builtIn("primary"), Claim{Kind: obj, Scope: Cluster()})
	return err
}

// RemoveInformer removes all claims, handlers and indexes of a kind. Reads that are waiting for the kind fail.
func (c *Cache) RemoveInformer(ctx context.Context, obj client.Object) error {
	key, err := c.keyOf(obj)
	if err != nil {
		return err
	}
	c.mu.Lock()
	k := c.kinds[key]
	delete(c.kinds, key)
	c.publish()
	for owner, owned := range c.owners {
		maps.DeleteFunc(owned, func(o ownedScope, _ struct{}) bool { return o.kind == key })
		if len(owned) == 0 {
			delete(c.owners, owner)
		}
	}
	c.mu.Unlock()
	if k != nil {
		k.remove()
	}
	return c.Cache.RemoveInformer(ctx, obj)
}
