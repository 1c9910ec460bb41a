package store

import (
	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/lib/budget"
)

// detach copies the Source that the entries refer to. A pointer into the catalog would make each entry that is in use keep the
// catalog with all entries in memory, even after the catalog was replaced.
func (c *Catalog) detach() {
	source := c.Source
	for _, e := range c.entries {
		e.Source = &source
	}
}

// cost returns the memory that a response with a package needs. Lists, but not texts, grow by up to a quarter more than they need
// while they are decoded.
func cost(m *packagesv1.PackageManifest, text []byte) int64 {
	size := budget.Of(m)
	return max(int64(len(text)), size.Memory+max(0, size.Memory-size.Text)/4)
}
