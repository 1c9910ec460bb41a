package catalog

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// ErrNoContent means that a catalog references a bundle only by its image.
var ErrNoContent = errors.New("the catalog contains no manifests for this bundle, only an image reference")

// NotUnpacked means that the content of a bundle image is not available yet. Callers need not poll: the Store notifies its
// watchers of changes. NotUnpacked is an ErrNoContent.
type NotUnpacked struct {
	// Catalog is the key of the catalog, Bundle is the name of the bundle, and Image is its image reference.
	Catalog types.NamespacedName
	Bundle  string
	Image   string
	// Failure is the error of the last attempt; it is nil during the first attempt.
	Failure error
}

// Error implements error.
func (e *NotUnpacked) Error() string {
	if e.Failure == nil {
		return fmt.Sprintf("bundle image %q is being unpacked", e.Image)
	}
	return fmt.Sprintf("bundle image %q could not be unpacked: %v", e.Image, e.Failure)
}

// Is implements errors.Is.
func (e *NotUnpacked) Is(target error) bool { return target == ErrNoContent }

// Unwrap returns the failure.
func (e *NotUnpacked) Unwrap() error { return e.Failure }

// Store contains the newest Snapshot of every CatalogSource or, in the program for ClusterExtensions, of every
// ClusterCatalog. Only the controller of that kind writes to it. The zero value is ready to use.
type Store struct {
	mu        sync.RWMutex
	snapshots map[types.NamespacedName]*Snapshot
	// unavailable contains the catalogs without content whose content has been found to be missing or unusable.
	unavailable map[types.NamespacedName]struct{}
	watchers    []func(Change)
}

// Change describes a change in a Store. The watchers of the Store receive it.
type Change struct {
	Catalog types.NamespacedName
	// Image is a bundle image that was read or could not be read; "" if the content of the catalog itself changed.
	Image string
}

// Get returns the published Snapshot of a catalog.
func (s *Store) Get(key types.NamespacedName) (*Snapshot, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	snap, ok := s.snapshots[key]
	return snap, ok
}

// Put publishes a Snapshot. It notifies the watchers and returns true unless the digest, the priority and IsUnreachable are
// unchanged. The new Snapshot always replaces the old one, because the old Reader may have lost its connection.
func (s *Store) Put(snap *Snapshot) bool {
	s.mu.Lock()
	old := s.snapshots[snap.Key]
	if s.snapshots == nil {
		s.snapshots = map[types.NamespacedName]*Snapshot{}
	}
	s.snapshots[snap.Key] = snap
	delete(s.unavailable, snap.Key)
	s.mu.Unlock()
	if old != nil && old.Digest == snap.Digest && old.Priority == snap.Priority && old.IsUnreachable == snap.IsUnreachable {
		return false
	}
	s.Touch(snap.Key)
	return true
}

// IsLoading reports whether nothing is known yet about a catalog's content: it has neither been published nor found to be unavailable.
func (s *Store) IsLoading(key types.NamespacedName) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, published := s.snapshots[key]
	_, unavailable := s.unavailable[key]
	return !published && !unavailable
}

// SetUnavailable removes a catalog's content, because that is missing or unusable. It notifies the watchers if this was not known yet,
// and returns true if there was any content.
func (s *Store) SetUnavailable(key types.NamespacedName) bool {
	s.mu.Lock()
	_, existed := s.snapshots[key]
	_, known := s.unavailable[key]
	delete(s.snapshots, key)
	if s.unavailable == nil {
		s.unavailable = map[types.NamespacedName]struct{}{}
	}
	s.unavailable[key] = struct{}{}
	s.mu.Unlock()
	if !known {
		s.Touch(key)
	}
	return existed
}

// Delete removes all that is known about a catalog that no longer exists. It notifies the watchers and returns true if there was any.
func (s *Store) Delete(key types.NamespacedName) bool {
	s.mu.Lock()
	_, existed := s.snapshots[key]
	delete(s.snapshots, key)
	delete(s.unavailable, key)
	s.mu.Unlock()
	if existed {
		s.Touch(key)
	}
	return existed
}

// Touch notifies the watchers of a change to a catalog's content.
func (s *Store) Touch(key types.NamespacedName) { s.notify(Change{Catalog: key}) }

// TouchImage notifies the watchers when the content of a bundle image becomes available or cannot be read.
func (s *Store) TouchImage(key types.NamespacedName, image string) {
	s.notify(Change{Catalog: key, Image: image})
}

func (s *Store) notify(change Change) {
	s.mu.RLock()
	watchers := s.watchers
	s.mu.RUnlock()
	for _, notify := range watchers {
		notify(change)
	}
}

// Watch registers a function that is called after each change, while no lock is held. It must not block.
func (s *Store) Watch(notify func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers[:len(s.watchers):len(s.watchers)], notify)
}
