package catalogsource

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/remit-olm/remit/pkg/rbac"
)

const (
	// maxFollowed bounds the ConfigMaps of one namespace that are watched concurrently.
	maxFollowed = 32
	// followAgain is the delay before a closed watch is reopened.
	followAgain = 10 * time.Second
)

// openFunc watches the metadata of one ConfigMap (see Options.WatchConfigMap).
type openFunc func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (watch.Interface, error)

// configMapWatches watches the ConfigMaps that CatalogSources name, with one watch for each CatalogSource. It uses an identity
// that is allowed to watch them: for tenants, the account of the namespace. As a manager.Runnable, it stops the watches when the
// program ends.
type configMapWatches struct {
	// open watches the metadata of one ConfigMap; nil disables watches.
	open openFunc
	wake func(types.NamespacedName)
	// interests tracks the RBAC that determines whether a ConfigMap can be read and watched.
	interests *rbac.Interests[types.NamespacedName]

	mu    sync.Mutex
	byKey map[types.NamespacedName]*followed
}

// followed is the watched ConfigMap of one CatalogSource.
type followed struct {
	name string
	// events is nil if changes are not watched; begun means that a goroutine reads the events.
	events watch.Interface
	begun  bool
	cancel context.CancelFunc
}

// prepare opens the watch of a CatalogSource's ConfigMap, before the ConfigMap is read. It returns the delay after
// which to read the ConfigMap again, or zero if the ConfigMap is watched. prepare must not be called concurrently for
// the same CatalogSource.
// The listers track what the result depends on.
func (f *configMapWatches) prepare(ctx context.Context, listers rbac.Listers, key types.NamespacedName, name string) time.Duration {
	open, pause := f.start(key, name)
	if open == nil {
		return pause
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	events, err := open(own, listers, types.NamespacedName{Namespace: key.Namespace, Name: name})
	if err != nil {
		cancel()
		return followAgain
	}
	if events == nil {
		cancel()
		return lastReload
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byKey[key].events, f.byKey[key].cancel = events, cancel
	return 0
}

// start records the name, and returns the function that opens the watch, or nil if no watch should be opened. The
// duration is the delay after which to read the ConfigMap again, or zero if the ConfigMap is already watched.
func (f *configMapWatches) start(key types.NamespacedName, name string) (openFunc, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.byKey[key]; old != nil && old.name == name && old.events != nil {
		return nil, 0
	}
	f.remove(key)
	if f.byKey == nil {
		f.byKey = map[types.NamespacedName]*followed{}
	}
	f.byKey[key] = &followed{name: name, cancel: func() {}}
	if f.watched(key.Namespace) >= maxFollowed {
		return nil, lastReload
	}
	return f.open, lastReload
}

// watched returns the number of watches in a namespace. The caller must hold the lock.
func (f *configMapWatches) watched(namespace string) int {
	n := 0
	for key, one := range f.byKey {
		if key.Namespace == namespace && one.events != nil {
			n++
		}
	}
	return n
}

// begin starts reading events from the watch, and wakes the CatalogSource when its ConfigMap differs from the version that was
// read. version is "" if the ConfigMap did not exist.
func (f *configMapWatches) begin(key types.NamespacedName, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byKey[key]
	if one == nil || one.events == nil || one.begun {
		return
	}
	one.begun = true
	go f.read(key, one, version)
}

func (f *configMapWatches) read(key types.NamespacedName, one *followed, version string) {
	for event := range one.events.ResultChan() {
		obj, ok := event.Object.(metav1.Object)
		if !ok {
			break // the watch failed
		}
		if event.Type == watch.Bookmark || event.Type != watch.Deleted && obj.GetResourceVersion() == version {
			continue
		}
		version = obj.GetResourceVersion()
		f.wake(key)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byKey[key] == one {
		f.remove(key)
		time.AfterFunc(followAgain, func() { f.wake(key) })
	}
}

// remove stops the watch of a CatalogSource, if any. The caller must hold the lock.
func (f *configMapWatches) remove(key types.NamespacedName) {
	if one := f.byKey[key]; one != nil {
		delete(f.byKey, key)
		one.cancel()
		if one.events != nil {
			one.events.Stop()
		}
	}
}

// unwatch stops the watches of matching CatalogSources, so that wakeUnwatched wakes them: their ConfigMap cannot be read, or
// another account has to watch it.
func (f *configMapWatches) unwatch(match func(types.NamespacedName) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, one := range f.byKey {
		if one.events != nil && match(key) {
			f.remove(key)
			f.byKey[key] = &followed{name: one.name, cancel: func() {}}
		}
	}
}

func (f *configMapWatches) drop(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(key)
}

// wakeUnwatched wakes matching CatalogSources whose ConfigMaps are not watched.
func (f *configMapWatches) wakeUnwatched(match func(types.NamespacedName) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, one := range f.byKey {
		if one.events == nil && match(key) {
			f.wake(key)
		}
	}
}

// Start implements manager.Runnable.
func (f *configMapWatches) Start(ctx context.Context) error {
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.byKey {
		f.remove(key)
	}
	return nil
}
