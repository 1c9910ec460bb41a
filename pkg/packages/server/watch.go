package server

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/packages/store"
)

// bookmarkInterval is how often a watch that allows bookmarks reports the current version.
const bookmarkInterval = time.Minute

// Watch implements rest.Watcher.
func (m *manifests) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	if err := m.complete(); err != nil {
		return nil, err
	}
	s, err := m.selection(ctx, options)
	if err != nil {
		return nil, err
	}
	w := &watcher{selection: s, store: m.store, bookmarks: options.AllowWatchBookmarks, results: make(chan watch.Event)}
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	after, err := parseVersion(options.ResourceVersion)
	w.after = after
	switch now := m.store.Version(); {
	case err != nil:
		return nil, err
	case w.after > now:
		return nil, storage.NewTooLargeResourceVersionError(w.after, now, 1)
	case initial || w.after == 0 && options.SendInitialEvents == nil:
		w.initial, w.after = true, now
	case w.after == 0:
		w.after = now
	}
	w.announce = initial && options.AllowWatchBookmarks
	ctx, w.stop = context.WithCancel(ctx)
	if w.hold, err = m.room.watch(ctx); err != nil {
		w.stop()
		return nil, err
	}
	w.delivery = deliveryOf(ctx)
	go w.run(ctx)
	return w, nil
}

// watcher sends the changes to the packages that match a selection.
type watcher struct {
	selection
	store     *store.Store
	bookmarks bool
	// initial means that all packages are sent first. announce means that a bookmark follows them.
	initial, announce bool
	after             uint64
	results           chan watch.Event
	stop              context.CancelFunc
	// hold waits until there is room for an event, whose memory the delivery releases.
	hold     func(bytes int64) (release func(), err error)
	delivery *delivery
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.stop() }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

// run sends events until the context is done or the watch is too far behind.
func (w *watcher) run(ctx context.Context) {
	defer close(w.results)
	defer w.stop()
	if w.initial && !w.sendAll(ctx) {
		return
	}
	if w.announce && !w.send(ctx, w.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})) {
		return
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, bookmarkInterval)
		changes, until, err := w.store.Changes(waiting, w.View, w.after)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrExpired):
			status := apierrors.NewResourceExpired("too old resource version: list again").Status()
			w.send(ctx, watch.Event{Type: watch.Error, Object: &status})
			return
		case err != nil: // nothing has changed during bookmarkInterval
			if w.bookmarks && !w.send(ctx, w.bookmark(nil)) {
				return
			}
			continue
		}
		for _, c := range changes {
			if !w.change(ctx, c) {
				return
			}
		}
		w.after = until
	}
}

// maxNames bounds the names of packages that a watch remembers while it sends all packages.
const maxNames = 1000

// sendAll sends all packages; run then sends their changes since the version "after". Clients may read slowly, so sendAll
// remembers only names: entries would keep each catalog that is replaced in the meantime in memory and on disk.
func (w *watcher) sendAll(ctx context.Context) bool {
	last := ""
	for {
		names := w.store.Names(w.View, last, maxNames)
		if len(names) == 0 {
			return true
		}
		for _, last = range names {
			if !w.sendNamed(ctx, last, func(types.NamespacedName) bool { return true }) {
				return false
			}
		}
	}
}

// sendNamed sends the packages with a name in the selected catalogs.
func (w *watcher) sendNamed(ctx context.Context, name string, selects func(catalog types.NamespacedName) bool) bool {
	view := w.View
	view.Name = name
	found, _ := w.store.List(view)
	catalogs := make([]types.NamespacedName, 0, len(found))
	for _, e := range found {
		if selects(e.Catalog()) {
			catalogs = append(catalogs, e.Catalog())
		}
	}
	for _, catalog := range catalogs {
		if !w.sendCurrent(ctx, watch.Added, store.Change{Catalog: catalog, Package: name}) {
			return false
		}
	}
	return true
}

// change sends the events of a change. It returns false if the watch has ended.
func (w *watcher) change(ctx context.Context, c store.Change) bool {
	if !w.sees(c) {
		return true
	}
	now := w.store.Current(c)
	before := !c.IsNew && w.selects(c, c.Before)
	after := !c.Deleted && now != nil && w.selects(c, now.Labels())
	switch {
	case after && before:
		return w.sendCurrent(ctx, watch.Modified, c)
	case after:
		return w.sendCurrent(ctx, watch.Added, c)
	case before && (c.Deleted || now != nil): // otherwise, a later change reports the deletion
		return w.send(ctx, watch.Event{Type: watch.Deleted, Object: removed(c, w.View)}) && w.remaining(ctx, c)
	}
	return true
}

// sees reports whether a change affects a package that is visible to the watch.
func (w *watcher) sees(c store.Change) bool {
	return w.store.Sees(w.View, c.Catalog) && (w.Name == "" || w.Name == c.Package)
}

// selects reports whether the selectors match the changed package with the given labels.
func (w *watcher) selects(c store.Change, labels store.Labels) bool {
	return w.matches(c.Package, w.NamespaceOf(c.Catalog), labels)
}

// remaining sends the package of the same name in another catalog, if any. Clients identify objects only by name, so the
// deletion also removed this package from their caches.
func (w *watcher) remaining(ctx context.Context, c store.Change) bool {
	sent := false
	return w.sendNamed(ctx, c.Package, func(catalog types.NamespacedName) bool {
		if sent || catalog == c.Catalog || w.NamespaceOf(catalog) != w.NamespaceOf(c.Catalog) {
			return false
		}
		sent = true
		return true
	})
}

// sendCurrent sends the current entry of a package, unless the package was removed or no longer matches. In that case, a later
// change reports the deletion.
func (w *watcher) sendCurrent(ctx context.Context, kind watch.EventType, c store.Change) bool {
	e, release, err := w.reserve(c)
	if err != nil {
		return false // the context is done
	}
	if e == nil {
		return true
	}
	w.delivery.offer(release)
	obj, err := manifest(e, w.View)
	if err != nil {
		status := apierrors.NewInternalError(err).Status()
		w.send(ctx, watch.Event{Type: watch.Error, Object: &status})
		return false
	}
	if !w.send(ctx, watch.Event{Type: kind, Object: obj}) {
		return false
	}
	w.delivery.taken()
	return true
}

// reserve waits until there is room for the current entry of a package, and returns the entry as it is then, or nil if there is
// none that matches. While it waits, it references no entry.
func (w *watcher) reserve(c store.Change) (e *store.Entry, release func(), err error) {
	for {
		before := w.current(c) // only the size is used while waiting, so that the entry can be freed
		if before == nil {
			return nil, nil, nil
		}
		cost := before.Cost
		release, err := w.hold(cost)
		if err != nil {
			return nil, nil, err
		}
		if now := w.current(c); now != nil && now.Cost <= cost {
			return now, release, nil
		}
		release() // the package has changed in the meantime
	}
}

// current returns the current entry of a package, or nil if there is none that matches.
func (w *watcher) current(c store.Change) *store.Entry {
	if e := w.store.Current(c); e != nil && w.selects(c, e.Labels()) {
		return e
	}
	return nil
}

func (w *watcher) bookmark(annotations map[string]string) watch.Event {
	obj := &packagesv1.PackageManifest{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version(w.after), Annotations: annotations}}
	obj.APIVersion, obj.Kind = packagesv1.GroupVersion.String(), packagesv1.KindPackageManifest
	return watch.Event{Type: watch.Bookmark, Object: obj}
}

func (w *watcher) send(ctx context.Context, e watch.Event) bool {
	select {
	case w.results <- e:
		return true
	case <-ctx.Done():
		return false
	}
}
