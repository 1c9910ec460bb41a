package catalogsource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/rbac"
)

// openFunc watches the metadata of one ConfigMap (see Options.WatchConfigMap).
type openFunc func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (watch.Interface, error)

// configMapWatches watches the ConfigMaps that CatalogSources name, with one watch for each CatalogSource. It uses an identity
// that is allowed to watch them: for tenants, the account of the namespace.
type configMapWatches struct {
	kit.Watches[types.NamespacedName]
	// open watches the metadata of one ConfigMap; nil disables watches.
	open openFunc
	// interests tracks the RBAC that determines whether a ConfigMap can be read and watched.
	interests *rbac.Interests[types.NamespacedName]

	mu sync.Mutex
	// unwatched contains the CatalogSources whose ConfigMaps are not watched.
	unwatched map[types.NamespacedName]bool
	places    *places
}

// newConfigMapWatches returns the watches. No limit applies to the exempt namespace.
func newConfigMapWatches(open openFunc, exempt string, wake func(types.NamespacedName)) *configMapWatches {
	return &configMapWatches{
		places: &places{
			max: maxConfigMaps, has: fmt.Sprintf("%d catalogs in ConfigMaps", maxConfigMaps), then: "will be loaded",
			exempt: exempt, wake: wake, byNamespace: map[string]*namespacePlaces{},
		},
		Watches: kit.Watches[types.NamespacedName]{Wake: wake, Namespace: func(key types.NamespacedName) string { return key.Namespace }},
		open:    open, interests: &rbac.Interests[types.NamespacedName]{}, unwatched: map[types.NamespacedName]bool{},
	}
}

// take takes a place for a CatalogSource, which drop releases. It returns an error if the namespace has too many catalogs in
// ConfigMaps; the CatalogSource is woken when there is a place.
func (f *configMapWatches) take(key types.NamespacedName) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.places.take(key)
}

// prepare opens the watch of a CatalogSource's ConfigMap, before the ConfigMap is read. It returns the delay after
// which to read the ConfigMap again, or zero if the ConfigMap is watched. prepare must not be called concurrently for
// the same CatalogSource.
// The listers track what the result depends on.
func (f *configMapWatches) prepare(ctx context.Context, listers rbac.Listers, key types.NamespacedName, name string) time.Duration {
	f.setUnwatched(key, false) // before the watch is opened, because unwatch may close it at once
	isOpen, err := f.Open(ctx, key, name, func(ctx context.Context) (watch.Interface, error) {
		if f.open == nil {
			return nil, nil //nolint:nilnil // there is no watch
		}
		return f.open(ctx, listers, types.NamespacedName{Namespace: key.Namespace, Name: name})
	})
	if isOpen {
		return 0
	}
	f.setUnwatched(key, true)
	if err != nil {
		return kit.WatchAgain
	}
	return lastReload
}

func (f *configMapWatches) setUnwatched(key types.NamespacedName, isUnwatched bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.unwatched, key); isUnwatched {
		f.unwatched[key] = true
	}
}

// unwatch stops the watches of matching CatalogSources, so that wakeUnwatched wakes them: their ConfigMap cannot be read, or
// another account has to watch it.
func (f *configMapWatches) unwatch(match func(types.NamespacedName) bool) {
	closed := f.Close(func(key types.NamespacedName, _ string) bool { return match(key) })
	for _, key := range closed {
		f.setUnwatched(key, true)
	}
}

func (f *configMapWatches) drop(key types.NamespacedName) {
	f.Close(func(other types.NamespacedName, _ string) bool { return other == key })
	f.setUnwatched(key, false)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.places.leave(key)
}

// wakeUnwatched wakes matching CatalogSources whose ConfigMaps are not watched.
func (f *configMapWatches) wakeUnwatched(match func(types.NamespacedName) bool) {
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.unwatched))
	f.mu.Unlock()
	for _, key := range all {
		if match(key) {
			f.Wake(key)
		}
	}
}
