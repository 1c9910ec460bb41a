package kit

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// MaxWatches is the maximum number of objects that are watched in one namespace.
	MaxWatches = 32
	// MaxAllWatches is the maximum number of objects that a program watches.
	MaxAllWatches = 4096
	// WatchAgain is the delay before the request of a watch that ended is woken, which watches the object again.
	WatchAgain = 10 * time.Second
)

// Watches watches the metadata of single objects that the controller identity may not read, as accounts that may. The keys
// identify who is woken. A key without a watch has to be checked at intervals.
//
//	Open -> read the object -> Begin, so that no change is missed
type Watches[K comparable] struct {
	// Wake is called for each change to a key's object, and Namespace returns the namespace of a key.
	Wake      func(K)
	Namespace func(K) string

	mu    sync.Mutex
	byKey map[K]*watched
	// inNamespace counts the watches.
	inNamespace map[string]int
}

// watched is a watch that is open or, if events is nil, that is being opened.
type watched struct {
	// is identifies what is watched and as whom.
	is     string
	events watch.Interface
	cancel context.CancelFunc
	// reading is true if a goroutine reads the events.
	reading bool
}

// Open opens the watch of a key, unless one with the same identity is open, and reports whether it is open. It closes a watch with
// another identity. It opens no watch if there are too many, and open may return nil if the object cannot be watched. Open must
// not be called concurrently for the same key.
func (w *Watches[K]) Open(ctx context.Context, key K, is string, open func(context.Context) (watch.Interface, error)) (isOpen bool, err error) {
	one, isNew := w.reserve(key, is)
	if one == nil || !isNew {
		return one != nil, nil
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	events, err := open(own)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && events != nil && w.byKey[key] == one {
		one.events, one.cancel = events, cancel
		return true, nil
	}
	cancel()
	if events != nil {
		events.Stop()
	}
	if w.byKey[key] == one {
		w.remove(key)
	}
	return false, err
}

// reserve returns the watch of a key, or a new one that counts from now on, or nil if there are too many.
func (w *Watches[K]) reserve(key K, is string) (one *watched, isNew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byKey[key]; one != nil && one.is == is {
		return one, false
	}
	w.remove(key)
	namespace := w.Namespace(key)
	if w.inNamespace[namespace] >= MaxWatches || len(w.byKey) >= MaxAllWatches {
		return nil, false
	}
	if w.byKey == nil {
		w.byKey, w.inNamespace = map[K]*watched{}, map[string]int{}
	}
	one = &watched{is: is, cancel: func() {}}
	w.byKey[key] = one
	w.inNamespace[namespace]++
	return one, true
}

// Begin starts reading the events of a watch. Each event wakes the key, except an event for the version that was read. version is
// "" if the object did not exist.
func (w *Watches[K]) Begin(key K, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.byKey[key]; one != nil && one.events != nil && !one.reading {
		one.reading = true
		go w.read(key, one, version)
	}
}

func (w *Watches[K]) read(key K, one *watched, version string) {
	for event := range one.events.ResultChan() {
		obj, ok := event.Object.(metav1.Object)
		if !ok {
			break // the watch failed
		}
		if event.Type == watch.Bookmark || event.Type != watch.Deleted && obj.GetResourceVersion() == version {
			continue
		}
		version = obj.GetResourceVersion()
		w.Wake(key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey[key] == one {
		w.remove(key)
		time.AfterFunc(WatchAgain, func() { w.Wake(key) })
	}
}

// Close closes the watches of matching keys, and returns these keys. is is the identity of a watch.
func (w *Watches[K]) Close(match func(key K, is string) bool) []K {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []K
	for key, one := range w.byKey {
		if match(key, one.is) {
			w.remove(key)
			out = append(out, key)
		}
	}
	return out
}

// remove closes the watch of a key, if any. The caller must hold the lock.
func (w *Watches[K]) remove(key K) {
	one := w.byKey[key]
	if one == nil {
		return
	}
	delete(w.byKey, key)
	namespace := w.Namespace(key)
	if w.inNamespace[namespace]--; w.inNamespace[namespace] == 0 {
		delete(w.inNamespace, namespace)
	}
	one.cancel()
	if one.events != nil {
		one.events.Stop()
	}
}

// Start implements manager.Runnable. It closes all watches when the program ends.
func (w *Watches[K]) Start(ctx context.Context) error {
	<-ctx.Done()
	w.Close(func(K, string) bool { return true })
	return nil
}
