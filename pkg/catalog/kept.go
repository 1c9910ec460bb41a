package catalog

import "fmt"

// keepStep is what Kept.Take is asked for at a time.
const keepStep = 64 << 10

// Kept counts what a loader keeps in memory of one catalog, manifests aside. It is used by one goroutine at a time.
type Kept struct {
	// Max is the most that may be kept, estimated.
	Max int64
	// Take is asked for all that is kept, whenever that grows; nil allows it. It is asked no more after an error.
	Take func(kept int64) error

	kept, taken int64
	full        error
}

// Add counts what is about to be kept. The error says that it may not be.
func (k *Kept) Add(n int64) error {
	if k.kept += n; k.kept > k.Max {
		return fmt.Errorf("the catalog takes more than %d MiB of memory, manifests aside", k.Max>>20)
	}
	if k.full != nil || k.Take == nil || k.kept <= k.taken {
		return k.full
	}
	k.taken = (k.kept + keepStep - 1) / keepStep * keepStep
	k.full = k.Take(k.taken)
	return k.full
}

// Full is the error of Take, if it had one.
func (k *Kept) Full() error { return k.full }
