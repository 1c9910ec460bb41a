package catalog

import "fmt"

// keepStep is the granularity of reservations with Kept.Take, in bytes.
const keepStep = 64 << 10

// Kept counts the memory that a loader retains for one catalog, excluding manifests. It is not safe for concurrent use.
type Kept struct {
	// Max is the maximum estimated memory, in bytes.
	Max int64
	// Take reserves memory: kept is the total size of the retained data, rounded up to a multiple of keepStep. If Take
	// is nil, no reservation is needed. After an error, it is not called again.
	Take func(kept int64) error

	kept, taken int64
	full        error
}

// Add reserves n bytes of memory before the caller retains data of that size. If it returns an error, the caller must
// not retain the data.
func (k *Kept) Add(n int64) error {
	if k.kept += n; k.kept > k.Max {
		return fmt.Errorf("the catalog uses more than %d MiB of memory, excluding manifests", k.Max>>20)
	}
	if k.full != nil || k.Take == nil || k.kept <= k.taken {
		return k.full
	}
	k.taken = (k.kept + keepStep - 1) / keepStep * keepStep
	k.full = k.Take(k.taken)
	return k.full
}

// Full returns the error that Take returned, if any.
func (k *Kept) Full() error { return k.full }
