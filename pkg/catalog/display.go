package catalog

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// DisplayReader reads the display-only data of a catalog, such as icons and descriptions, from the catalog's storage. It
// is not part of a Snapshot, because it accounts for most of a catalog's size. The methods return nil for data that the
// catalog does not contain.
type DisplayReader interface {
	// PackageDisplay returns the olm.package of a package as JSON, with its icon.
	PackageDisplay(ctx context.Context, pkg string) ([]byte, error)
	// BundleDisplay returns a JSON object that describes a bundle: its ClusterServiceVersion, or the value of its property
	// olm.csv.metadata.
	BundleDisplay(ctx context.Context, pkg, channel, bundle string) ([]byte, error)
}

// MaxDisplayBytes bounds the size of an object that a DisplayReader returns. Larger objects are not displayed.
const MaxDisplayBytes = 1 << 20

// All returns the newest Snapshots of all catalogs, by key.
func (s *Store) All() map[types.NamespacedName]*Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[types.NamespacedName]*Snapshot, len(s.snapshots))
	for key, snap := range s.snapshots {
		out[key] = snap
	}
	return out
}
