package scopedcache

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// List reads the objects of a namespace, or of the cluster if no namespace is given, from the cache. If the cluster is not
// claimed, it returns the objects of all claimed namespaces. If the objects cannot be read, or a watch is interrupted, it
// returns an error as Get does. With Options.PartialList, it returns an incomplete list and a *GapError.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, c.options.Scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	kindKey := kindKey{gvk: gvk, as: representationOf(list)}
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	if k := c.known(kindKey); k != nil && ctx.Value(ownerKey{}) == nil && k.copyAll(list, &options) {
		return nil // the usual case
	}
	l := listing{cache: c, list: list, options: options, scope: Namespace(options.Namespace), deadline: time.Now().Add(c.options.ReadTimeout)}
	if l.kind, err = c.covered(ctx, kindKey, l.scope); l.kind == nil {
		if c.options.Uncovered == ReadUncovered {
			return c.live.List(ctx, list, opts...)
		}
		return err
	}
	for {
		done, err := l.try(ctx)
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return l.kind.notSynced(l.scope, ctx.Err())
		}
	}
}

// copyAll copies the stored objects of a namespace or of the cluster to a list, as controller-runtime's cache does, but without
// looking up their kind. It returns false if no single live watch serves all of them, or if it does not support the options.
func (k *kind) copyAll(list client.ObjectList, options *client.ListOptions) bool {
	if options.FieldSelector != nil || options.Continue != "" || options.Limit > 0 {
		return false
	}
	stored, ok := k.liveIn(Namespace(options.Namespace))
	if !ok {
		return false
	}
	items := make([]runtime.Object, 0, len(stored))
	for _, item := range stored {
		obj := item.(client.Object)
		if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		items = append(items, k.copyOf(obj, options.UnsafeDisableDeepCopy))
	}
	if err := meta.SetList(list, items); err != nil {
		return false // the Go types of the list and of the stored objects differ
	}
	list.SetContinue("continue-not-supported") // as controller-runtime's cache does
	return true
}

// liveIn returns the stored objects of a namespace or of the cluster. It returns false if there is no claim, or if the watch
// is not live. The mutex prevents objects from being dropped at the same time.
func (k *kind) liveIn(scope Scope) ([]any, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if !k.live(scope) {
		return nil, false
	}
	if scope == Cluster() {
		return k.objects.index.List(), true
	}
	stored, err := k.objects.index.ByIndex(toolscache.NamespaceIndex, scope.namespace)
	return stored, err == nil
}

// listing is a running List.
type listing struct {
	cache   *Cache
	kind    *kind
	list    client.ObjectList
	scope   Scope
	options client.ListOptions
	// deadline limits the total duration of all waits of the List.
	deadline time.Time
	// each is true if try lists the parts of the scope one by one.
	each bool
}

// try lists once. It returns false if the list may be incorrect because of a concurrent change.
func (l *listing) try(ctx context.Context) (done bool, err error) {
	k := l.kind
	parts, mixed := k.parts(l.scope)
	l.each = l.each || mixed
	generation := k.generationOf(parts...)
	err = k.awaitAll(ctx, l.deadline, l.scope, parts)
	switch {
	case err != nil && !k.cache.options.PartialList:
		return false, err
	case l.each && err == nil:
		err = l.listEach(ctx, parts)
	default:
		if listErr := l.cache.Cache.List(ctx, l.list, &l.options); listErr != nil {
			return false, listErr
		}
	}
	if err != nil {
		return false, err
	}
	done = k.generationOf(parts...) == generation && (l.each || k.consistsOf(l.scope, parts)) && l.cache.reads(ctx, k)
	l.each = true // a second try is not affected by new claims
	return done, nil
}

// listEach lists the parts of the scope one by one.
func (l *listing) listEach(ctx context.Context, parts []Scope) error {
	var all []runtime.Object
	options := l.options
	for _, part := range parts {
		if l.options.Limit > 0 {
			if options.Limit = l.options.Limit - int64(len(all)); options.Limit <= 0 {
				break
			}
		}
		options.Namespace = part.namespace
		if err := l.cache.Cache.List(ctx, l.list, &options); err != nil {
			return err
		}
		items, err := meta.ExtractList(l.list)
		if err != nil {
			return err
		}
		all = append(all, items...)
	}
	return meta.SetList(l.list, all)
}

// awaitAll waits until all parts of a scope are served. If some are not, it returns an error. With Options.PartialList,
// this is a *GapError, and the caller can list the other parts.
func (k *kind) awaitAll(ctx context.Context, deadline time.Time, scope Scope, parts []Scope) error {
	if len(parts) == 0 { // only single objects are claimed
		return &GapError{Errs: []error{&NotCoveredError{GVK: k.key.gvk, Scope: scope}}}
	}
	var gaps []error
	for _, part := range parts {
		interrupted, err := k.await(ctx, deadline, part)
		if interrupted != nil {
			err = k.notSynced(part, interrupted) // new objects may be missing
		}
		switch {
		case err != nil && !k.cache.options.PartialList:
			return err
		case err != nil:
			gaps = append(gaps, err)
		}
	}
	if len(gaps) > 0 {
		return &GapError{Errs: gaps}
	}
	return nil
}

// parts returns the scopes to wait for: the scope itself if a claim covers it, and otherwise the claimed namespaces in
// order. mixed is true if these must be listed one by one, because the store also contains other objects.
func (k *kind) parts(scope Scope) (parts []Scope, mixed bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.isClaimed(scope) {
		return []Scope{scope}, false
	}
	if scope != Cluster() {
		return nil, false
	}
	for name, ns := range k.namespaces {
		if ns.claimed() {
			parts = append(parts, Namespace(name))
		} else if ns.feed != nil || len(ns.objects) > 0 {
			mixed = true
		}
	}
	slices.SortFunc(parts, func(a, b Scope) int { return strings.Compare(a.namespace, b.namespace) })
	return parts, mixed || k.cluster.feed != nil
}

// consistsOf reports whether the scope still has the same parts and the store contains no other objects.
func (k *kind) consistsOf(scope Scope, parts []Scope) bool {
	now, mixed := k.parts(scope)
	return !mixed && slices.Equal(now, parts)
}
