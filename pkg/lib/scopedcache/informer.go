package scopedcache

import (
	"context"
	"errors"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// informer is a kind as controller-runtime and its sources see it: one informer, whichever watches exist.
type informer struct {
	kind    *kind
	resync  time.Duration
	initial toolscache.Indexers
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
	if !ok {
		return errors.New("the handler was not added here")
	}
	i.kind.objects.handlers.remove(r)
	return nil
}

func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	i.kind.mu.Lock() // no object may change while it is indexed
	defer i.kind.mu.Unlock()
	return i.kind.objects.index.AddIndexers(indexers)
}

func (i *informer) GetStore() toolscache.Store     { return i.kind.objects.index }
func (i *informer) GetIndexer() toolscache.Indexer { return i.kind.objects.index }

// HasSynced returns false only while the first lists of the cache's own claims run: those of a primary kind and the
// static ones. A refused claim delays no controller.
func (i *informer) HasSynced() bool { return i.kind.synced() }

// HasSyncedChecker is done from the start: use HasSynced.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker {
	return doneChecker{name: i.kind.key.gvk.String(), done: closedChannel}
}

var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// IsStopped returns true after the cache has ended.
func (i *informer) IsStopped() bool {
	h := i.kind.objects.handlers
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// Run does nothing: feeds start with claims.
func (i *informer) Run(<-chan struct{}) {}

// RunWithContext does nothing: feeds start with claims.
func (i *informer) RunWithContext(context.Context) {}

// GetController returns nil: there is no single one.
func (i *informer) GetController() toolscache.Controller { return nil }

// LastSyncResourceVersion returns "": each feed has its own.
func (i *informer) LastSyncResourceVersion() string { return "" }

// SetWatchErrorHandler is not supported: use Cache.Changes.
func (i *informer) SetWatchErrorHandler(toolscache.WatchErrorHandler) error {
	return errors.New("scopedcache has no watch error handlers: use Cache.Changes")
}

// SetWatchErrorHandlerWithContext is not supported: use Cache.Changes.
func (i *informer) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errors.New("scopedcache has no watch error handlers: use Cache.Changes")
}

// SetTransform accepts only nil: use Options.ByKind.
func (i *informer) SetTransform(transform toolscache.TransformFunc) error {
	if transform != nil {
		return errors.New("scopedcache has no transforms of informers: use Options.ByKind")
	}
	return nil
}

var _ toolscache.SharedIndexInformer = (*informer)(nil)
