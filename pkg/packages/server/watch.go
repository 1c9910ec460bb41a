package server

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	s := m.selection(ctx, options)
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
		w.initial, w.after = m.store.List(s.View)
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

// watcher sends the changes of the packages that a selection selects.
type watcher struct {
	selection
	store     *store.Store
	bookmarks bool
	// initial contains the entries to send first. announce means that a bookmark follows them.
	initial  []*store.Entry
	announce bool
	after    uint64
	results  chan watch.Event
	stop     context.CancelFunc
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
	for _, e := range w.initial {
		if !w.sendEntry(ctx, watch.Added, e) {
			return
		}
	}
	w.initial = nil
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
		case err != nil: // nothing changed for some time
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

// change sends the events of a change. It returns false if the watch has ended.
func (w *watcher) change(ctx context.Context, c store.Change) bool {
	if !w.sees(c) {
		return true
	}
	now := w.store.Current(c)
	before := c.Before != nil && w.selects(c, c.Before)
	after := !c.Deleted && now != nil && w.selects(c, now.Labels)
	switch {
	case after && before:
		return w.sendEntry(ctx, watch.Modified, now)
	case after:
		return w.sendEntry(ctx, watch.Added, now)
	case before && (c.Deleted || now != nil): // otherwise, its deletion follows
		return w.send(ctx, watch.Event{Type: watch.Deleted, Object: removed(c, w.View)}) && w.remaining(ctx, c)
	}
	return true
}

// sees reports whether a change affects a package that is visible to the watch.
func (w *watcher) sees(c store.Change) bool {
	return w.store.Sees(w.View, c.Catalog) && (w.Name == "" || w.Name == c.Package)
}

// selects reports whether the selectors match the changed package with the given labels.
func (w *watcher) selects(c store.Change, labels map[string]string) bool {
	return w.matches(c.Package, w.NamespaceOf(c.Catalog), labels)
}

// remaining sends the package of the same name in another catalog, if any. Clients identify objects only by name, so the
// deletion also removed this package from their caches.
func (w *watcher) remaining(ctx context.Context, c store.Change) bool {
	view := w.View
	view.Name = c.Package
	others, _ := w.store.List(view)
	for _, e := range others {
		if w.NamespaceOf(e.Catalog()) == w.NamespaceOf(c.Catalog) && e.Catalog() != c.Catalog {
			return w.sendEntry(ctx, watch.Added, e)
		}
	}
	return true
}

func (w *watcher) sendEntry(ctx context.Context, kind watch.EventType, e *store.Entry) bool {
	release, err := w.hold(e.Bytes)
	if err != nil {
		return false // the context is done
	}
	w.delivery.offer(release)
	obj, err := manifest(e, w.View, withoutIcons)
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
