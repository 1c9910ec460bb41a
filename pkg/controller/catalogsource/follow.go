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
	// maxFollowed bounds the ConfigMaps of one namespace that are watched at once.
	maxFollowed = 32
	// followAgain is the pause before a watch that ended is opened again.
	followAgain = 10 * time.Second
)

// openFunc is Options.WatchConfigMap.
type openFunc func(ctx context.Context, listers rbac.Listers, key types.NamespacedName) (watch.Interface, error)

// follows notices changes of the ConfigMaps that CatalogSources name, one watch for each, as whoever may watch it: the
// account of the namespace, for a tenant's. It is a manager.Runnable that ends them.
type follows struct {
	// open watches the metadata of one ConfigMap; nil watches none.
	open openFunc
	wake func(types.NamespacedName)
	// interests are what the right to watch rested on, where there is none.
	interests *rbac.Interests[types.NamespacedName]
	rbac      rbac.Listers

	mu    sync.Mutex
	byKey map[types.NamespacedName]*followed
}

// followed is the ConfigMap of one CatalogSource.
type followed struct {
	name string
	// events is nil where changes are not noticed, and begun says that they are read.
	events watch.Interface
	begun  bool
	cancel context.CancelFunc
}

// prepare opens the watch of a CatalogSource's ConfigMap, before it is read. It returns when to read it again although nobody
// wakes the CatalogSource: zero where changes are noticed. One reconcile at a time calls it for a CatalogSource.
func (f *follows) prepare(ctx context.Context, key types.NamespacedName, name string) time.Duration {
	open := f.start(key, name)
	if open == nil {
		return f.pause(key)
	}
	listers, looked := f.interests.Track(key, f.rbac)
	defer looked()
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

// start notes the name, and returns what opens the watch where that is to be tried.
func (f *follows) start(key types.NamespacedName, name string) openFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.byKey[key]; old != nil && old.name == name && old.events != nil {
		return nil
	}
	f.remove(key)
	if f.byKey == nil {
		f.byKey = map[types.NamespacedName]*followed{}
	}
	f.byKey[key] = &followed{name: name, cancel: func() {}}
	if f.watched(key.Namespace) >= maxFollowed {
		return nil
	}
	return f.open
}

// pause is that of a CatalogSource for which no watch is opened.
func (f *follows) pause(key types.NamespacedName) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byKey[key].events != nil {
		return 0
	}
	return lastReload
}

// watched counts the watches of a namespace.
func (f *follows) watched(namespace string) int {
	n := 0
	for key, one := range f.byKey {
		if key.Namespace == namespace && one.events != nil {
			n++
		}
	}
	return n
}

// begin wakes the CatalogSource once its ConfigMap is no longer of the version that was read; "" is none.
func (f *follows) begin(key types.NamespacedName, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byKey[key]
	if one == nil || one.events == nil || one.begun {
		return
	}
	one.begun = true
	go f.read(key, one, version)
}

func (f *follows) read(key types.NamespacedName, one *followed, version string) {
	for event := range one.events.ResultChan() {
		obj, ok := event.Object.(metav1.Object)
		if !ok {
			break // the watch has failed
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

// remove ends the watch of a CatalogSource; the caller holds the lock.
func (f *follows) remove(key types.NamespacedName) {
	if one := f.byKey[key]; one != nil {
		delete(f.byKey, key)
		one.cancel()
		if one.events != nil {
			one.events.Stop()
		}
	}
}

func (f *follows) drop(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(key)
}

// again wakes the CatalogSources that match and whose ConfigMaps are not watched.
func (f *follows) again(match func(types.NamespacedName) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, one := range f.byKey {
		if one.events == nil && match(key) {
			f.wake(key)
		}
	}
}

// Start implements manager.Runnable.
func (f *follows) Start(ctx context.Context) error {
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.byKey {
		f.remove(key)
	}
	return nil
}
