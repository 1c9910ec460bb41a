package catalogsource

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
)

// Limits for the catalogs of tenants. They do not apply to catalogs in the global catalog namespace, whose authors act
// on behalf of the whole cluster, or to directories, which the installation configures.
const (
	// maxNamespaceBytes bounds the estimated memory used by one namespace's catalogs. It is enough for one catalog of the
	// maximum size, or for one of the largest published catalogs, which count for about 37 MiB. maxTenantBytes bounds the total of all namespaces.
	// Beyond that total, each namespace still gets leastNamespaceBytes, until the total reaches mostBytes.
	maxNamespaceBytes, maxTenantBytes, leastNamespaceBytes, mostBytes = 64 << 20, 384 << 20, 4 << 20, 512 << 20
	// The same limits for manifests on disk.
	maxNamespaceDisk, maxTenantDisk, leastNamespaceDisk, mostDisk = 512 << 20, 1 << 30, 32 << 20, 1536 << 20
	// The same limits for temporary files while catalogs are read. The limit of a namespace is sufficient for maxPulls catalogs.
	maxNamespaceWork, maxTenantWork, leastNamespaceWork, mostWork = maxPulls * (maxTenantFiles + maxTenantContents), 3 << 30, 64 << 20, 4 << 30
)

// MaxMemory bounds the estimated memory for the catalogs of tenants, and for what is decoded and received from all registries, in bytes.
const MaxMemory = mostBytes + catalog.AllDecodingMemory + (tenantListings+tenantBundles+globalLoads)*messageMemory

// budget enforces one set of these limits. It refuses content that exceeds them. When other content shrinks or is
// removed, it wakes the CatalogSources whose content was refused: those in the same namespace and, if the total was
// exceeded, those in all namespaces.
type budget struct {
	max int64
	// total bounds the usage of all namespaces together. For a namespace whose usage is at most "least", the bound is
	// "most" instead.
	total, least, most int64
	// resource is the name of the limited resource, for messages.
	resource string
	// decoding limits the memory that all loaders together use for decoding.
	decoding *catalog.Decoding
	// exempt is the namespace to which no limits apply.
	exempt string
	wake   func(types.NamespacedName)

	mu   sync.Mutex
	used map[holder]int64
	// refused contains the CatalogSources whose content was refused. The value is true if the total was exceeded.
	refused map[types.NamespacedName]bool
}

// holder identifies content that counts toward a budget, by CatalogSource and kind of source. The serial distinguishes
// the content of the current spec from that of an earlier one.
type holder struct {
	by     keeper
	key    types.NamespacedName
	serial int
}

type keeper string

const (
	fromImage     keeper = "image"
	fromAddress   keeper = "address"
	fromConfigMap keeper = "configmap"
)

// newDiskBudget returns the budget for manifests on disk.
func newDiskBudget(exempt string) *budget {
	b := newBudget(exempt)
	b.max, b.total, b.least, b.most, b.resource = maxNamespaceDisk, maxTenantDisk, leastNamespaceDisk, mostDisk, "disk"
	return b
}

// newWorkBudget returns the budget for temporary files. The budget never wakes CatalogSources, because refused CatalogSources
// would wake each other endlessly.
func newWorkBudget(exempt string) *budget {
	b := newBudget(exempt)
	b.max, b.total, b.least, b.most, b.resource = maxNamespaceWork, maxTenantWork, leastNamespaceWork, mostWork, "temporary disk space"
	return b
}

// newBudget returns the budget for memory. The caller sets wake.
func newBudget(exempt string) *budget {
	return &budget{max: maxNamespaceBytes, total: maxTenantBytes, least: leastNamespaceBytes, most: mostBytes, resource: "memory", decoding: catalog.NewDecoding(), exempt: exempt, wake: func(types.NamespacedName) {}, used: map[holder]int64{}, refused: map[types.NamespacedName]bool{}}
}

// loader returns a loader for catalogs of a namespace.
func (b *budget) loader(namespace string) fbc.Loader {
	return fbc.Loader{Limits: b.limits(namespace), Decoding: b.decoding}
}

// limits returns the limits for a single catalog of a namespace.
func (b *budget) limits(namespace string) catalog.DecodingLimits {
	if namespace == b.exempt {
		return catalog.GlobalDecoding()
	}
	return catalog.TenantDecoding()
}

// take records the size of new content. If the content exceeds a limit, take returns an error and the previous size
// still counts.
func (b *budget) take(h holder, size int64) error {
	if h.key.Namespace == b.exempt {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check(h, size); err != nil {
		return err
	}
	if size < b.used[h] {
		defer b.wakeRefused(h.key)
	}
	b.used[h] = size
	delete(b.refused, h.key)
	return nil
}

// fits returns the error that take would return. It records a refusal, but not the size.
func (b *budget) fits(h holder, size int64) error {
	if h.key.Namespace == b.exempt {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.check(h, size)
}

// check returns an error if the size exceeds a limit, and records the refusal. The caller must hold the lock.
func (b *budget) check(h holder, size int64) error {
	others, all := b.others(h)
	same := b.replacedUsage(h)
	if others+size > b.max {
		b.refused[h.key] = false
		return fmt.Errorf("the catalog's content needs %d MiB of %s, and the other catalogs of namespace %s use %d MiB; together, at most %d MiB are allowed",
			mib(size+same), b.resource, h.key.Namespace, mib(others-same), mib(b.max))
	}
	most := b.total
	if others+size <= b.least {
		most = b.most
	}
	if all+size > most {
		b.refused[h.key] = true
		return fmt.Errorf("the catalog's content needs %d MiB of %s, but the catalogs of all tenants together can use at most %d MiB", mib(size+same), b.resource, mib(most))
	}
	return nil
}

// holds returns the size that is recorded for a holder.
func (b *budget) holds(h holder) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used[h]
}

// restore sets a holder's size to its previous value. Unlike release, it does not clear a refusal.
func (b *budget) restore(h holder, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	smaller := size < b.used[h]
	if b.used[h] = size; size == 0 {
		delete(b.used, h)
	}
	if smaller {
		b.wakeRefused(h.key)
	}
}

// others returns the usage of all holders except h, in its namespace and in all namespaces. The caller must hold the
// lock.
func (b *budget) others(h holder) (namespace, all int64) {
	for other, n := range b.used {
		if other == h {
			continue
		}
		if all += n; other.key.Namespace == h.key.Namespace {
			namespace += n
		}
	}
	return namespace, all
}

// replacedUsage returns the usage of other content of the same CatalogSource, which the new content replaces. The caller must
// hold the lock.
func (b *budget) replacedUsage(h holder) (n int64) {
	for other, size := range b.used {
		if other != h && other.key == h.key {
			n += size
		}
	}
	return n
}

// release removes the usage of a holder and the refusal of its CatalogSource, if any.
func (b *budget) release(h holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refused, h.key)
	if _, ok := b.used[h]; ok {
		delete(b.used, h)
		b.wakeRefused(h.key)
	}
}

// wakeRefused wakes the refused CatalogSources other than "by": those in the same namespace, and those refused because
// of the total. The caller must hold the lock; wake must not block.
func (b *budget) wakeRefused(by types.NamespacedName) {
	for _, key := range slices.Collect(maps.Keys(b.refused)) {
		if key != by && (key.Namespace == by.Namespace || b.refused[key]) {
			b.wake(key)
		}
	}
}

// mib converts bytes to MiB, rounded up.
func mib(n int64) int64 { return (n + 1<<20 - 1) >> 20 }
