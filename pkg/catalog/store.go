package catalog

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// ErrNoContent says that a catalog knows a bundle only by its image.
var ErrNoContent = errors.New("the catalog carries no manifests for this bundle, only an image reference")

// NotUnpacked is why the content of a bundle that a catalog names by image is not there now. Nobody has to ask
// again: the Store's watchers are told of the catalog once there is news. It is an ErrNoContent until then.
type NotUnpacked struct {
	// Catalog names the CatalogSource, Bundle the bundle, Image its image.
	Catalog types.NamespacedName
	Bundle  string
	Image   string
	// Failure of the last try; nil while the first one is under way.
	Failure error
}

// Error says it in one sentence.
func (e *NotUnpacked) Error() string {
	if e.Failure == nil {
		return fmt.Sprintf("bundle image %q is being unpacked", e.Image)
	}
	return fmt.Sprintf("bundle image %q could not be unpacked: %v", e.Image, e.Failure)
}

// Is implements errors.Is.
func (e *NotUnpacked) Is(target error) bool { return target == ErrNoContent }

// Unwrap is the failure.
func (e *NotUnpacked) Unwrap() error { return e.Failure }

// Store holds the newest Snapshot of every CatalogSource. The catalogsource controller is its only
// writer; everybody else reads. The zero value is ready to use.
type Store struct {
	mu        sync.RWMutex
	snapshots map[types.NamespacedName]*Snapshot
	watchers  []func(types.NamespacedName)
}

// Get returns the published Snapshot of a CatalogSource.
func (s *Store) Get(key types.NamespacedName) (*Snapshot, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	snap, ok := s.snapshots[key]
	return snap, ok
}

// Put publishes a Snapshot and tells the watchers, unless its content is already there by digest and
// priority. It says whether anything changed. The Snapshot takes the other's place in any case: its
// Reader may be the one that still has a connection.
func (s *Store) Put(snap *Snapshot) bool {
	s.mu.Lock()
	old := s.snapshots[snap.Key]
	if s.snapshots == nil {
		s.snapshots = map[types.NamespacedName]*Snapshot{}
	}
	s.snapshots[snap.Key] = snap
	watchers := s.watchers
	s.mu.Unlock()
	if old != nil && old.Digest == snap.Digest && old.Priority == snap.Priority {
		return false
	}
	for _, notify := range watchers {
		notify(snap.Key)
	}
	return true
}

// Delete withdraws a CatalogSource's content and tells the watchers if there was any.
func (s *Store) Delete(key types.NamespacedName) {
	s.mu.Lock()
	_, existed := s.snapshots[key]
	delete(s.snapshots, key)
	watchers := s.watchers
	s.mu.Unlock()
	if !existed {
		return
	}
	for _, notify := range watchers {
		notify(key)
	}
}

// Touch tells the watchers that the content of a bundle of a CatalogSource's arrived, or failed to.
func (s *Store) Touch(key types.NamespacedName) {
	s.mu.RLock()
	watchers := s.watchers
	s.mu.RUnlock()
	for _, notify := range watchers {
		notify(key)
	}
}

// Watch registers a function that is called, without locks held, after each change. It must not block.
func (s *Store) Watch(notify func(types.NamespacedName)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers[:len(s.watchers):len(s.watchers)], notify)
}
