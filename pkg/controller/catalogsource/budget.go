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
// for the whole cluster, and to directories, which the installation configures.
const (
	// maxNamespaceBytes bounds the estimated memory of one namespace's catalogs: the maximum of one catalog, or four of the
	// largest published ones. maxTenantBytes bounds the total. Beyond that, each namespace still gets leastNamespaceBytes, until
	// the total reaches mostBytes.
	maxNamespaceBytes, maxTenantBytes, leastNamespaceBytes, mostBytes = 64 << 20, 384 << 20, 4 << 20, 512 << 20
	// The same limits for manifests on disk.
	maxNamespaceDisk, maxTenantDisk, leastNamespaceDisk, mostDisk = 512 << 20, 1 << 30, 32 << 20, 1536 << 20
	// The same limits for temporary files while catalogs are read. The limit of a namespace is sufficient for maxPulls catalogs.
	maxNamespaceWork, maxTenantWork, leastNamespaceWork, mostWork = maxPulls * (maxTenantFiles + maxTenantContents), 3 << 30, 64 << 20, 4 << 30
)

// budget enforces such limits. If content exceeds them, it is refused, and its CatalogSource is woken when another one
// of the namespace shrinks or is deleted.
type budget struct {
	max int64
	// total bounds all namespaces together, except for the least that each gets; most bounds all of it.
	total, least, most int64
	// of names the resource in messages.
	of string
	// decoding is shared by all loaders.
	decoding *catalog.Decoding
	// exempt is the namespace without limits.
	exempt string
	wake   func(types.NamespacedName)

	mu   sync.Mutex
	used map[holder]int64
	// refused contains the CatalogSources that were refused, and whether the total was the reason.
	refused map[types.NamespacedName]bool
}

// holder identifies content of a CatalogSource and its kind of source. The serial distinguishes the content of an
// earlier spec from that of the current one.
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
	b.max, b.total, b.least, b.most, b.of = maxNamespaceDisk, maxTenantDisk, leastNamespaceDisk, mostDisk, "disk"
	return b
}

// newWorkBudget returns the budget for temporary files. It wakes no CatalogSource, because refused ones would wake each
// other in turn.
func newWorkBudget(exempt string) *budget {
	b := newBudget(exempt)
	b.max, b.total, b.least, b.most, b.of = maxNamespaceWork, maxTenantWork, leastNamespaceWork, mostWork, "disk while it is read"
	return b
}

// newBudget returns the budget for memory. The caller sets wake.
func newBudget(exempt string) *budget {
	return &budget{max: maxNamespaceBytes, total: maxTenantBytes, least: leastNamespaceBytes, most: mostBytes, of: "memory", decoding: catalog.NewDecoding(), exempt: exempt, wake: func(types.NamespacedName) {}, used: map[holder]int64{}, refused: map[types.NamespacedName]bool{}}
}

// loader returns a loader for catalogs of a namespace.
func (b *budget) loader(namespace string) fbc.Loader {
	return fbc.Loader{Limits: b.limits(namespace), Decoding: b.decoding}
}

// limits returns the limits for one catalog of a namespace.
func (b *budget) limits(namespace string) catalog.DecodingLimits {
	if namespace == b.exempt {
		return catalog.GlobalDecoding()
	}
	return catalog.TenantDecoding()
}

// take records the size of new content. If it returns an error, the content exceeds a limit, and the previous size still counts.
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

// fits returns the error that take would return, without recording anything.
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
		return fmt.Errorf("its content needs %d MiB of %s, and the other catalogs of namespace %s use %d MiB; together, at most %d MiB are allowed",
			mib(size+same), b.of, h.key.Namespace, mib(others-same), mib(b.max))
	}
	most := b.total
	if others+size <= b.least {
		most = b.most
	}
	if all+size > most {
		b.refused[h.key] = true
		return fmt.Errorf("its content needs %d MiB of %s, but the catalogs of all tenants together can use at most %d MiB", mib(size+same), b.of, mib(most))
	}
	return nil
}

// holds returns the recorded size of a holder.
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

// others returns the usage of the namespace's other catalogs, and that of all namespaces. The caller must hold the lock.
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

// release removes the usage of a holder.
func (b *budget) release(h holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refused, h.key)
	if _, ok := b.used[h]; ok {
		delete(b.used, h)
		b.wakeRefused(h.key)
	}
}

// wakeRefused wakes refused CatalogSources except by. The caller must hold the lock; wake must not block.
func (b *budget) wakeRefused(by types.NamespacedName) {
	for _, key := range slices.Collect(maps.Keys(b.refused)) {
		if key != by && (key.Namespace == by.Namespace || b.refused[key]) {
			b.wake(key)
		}
	}
}

// mib converts bytes to MiB, rounded up.
func mib(n int64) int64 { return (n + 1<<20 - 1) >> 20 }
