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

// Limits on what tenants' catalogs take together. Those of the global catalog namespace, whose authors speak for the whole
// cluster, and directories, which the installation maps, do not count.
const (
	// maxNamespaceBytes bounds the memory of one namespace's, estimated: what the largest one may, or four of the largest that are
	// published; maxTenantBytes that of all. leastNamespaceBytes are a namespace's beyond that, until all take mostBytes.
	maxNamespaceBytes, maxTenantBytes, leastNamespaceBytes, mostBytes = 64 << 20, 384 << 20, 4 << 20, 512 << 20
	// The same for the manifests that they carry, on disk.
	maxNamespaceDisk, maxTenantDisk, leastNamespaceDisk, mostDisk = 512 << 20, 1 << 30, 32 << 20, 1536 << 20
	// The same for what is on disk while catalogs are read: a namespace's are as large as maxPulls can be.
	maxNamespaceWork, maxTenantWork, leastNamespaceWork, mostWork = maxPulls * (maxTenantFiles + maxTenantContents), 3 << 30, 64 << 20, 4 << 30
)

// budget keeps to that. What is over is refused, and its CatalogSource woken when another one of the namespace is
// smaller or gone.
type budget struct {
	max int64
	// total bounds all namespaces together, beyond what is the least of each; most with it.
	total, least, most int64
	// of is what is counted.
	of string
	// decoding is shared by all that is decoded.
	decoding *catalog.Decoding
	// exempt is the namespace that is not bounded.
	exempt string
	wake   func(types.NamespacedName)

	mu   sync.Mutex
	held map[holder]int64
	// refused says whether it was for the total.
	refused map[types.NamespacedName]bool
}

// holder is a CatalogSource with what keeps its content. The serial tells what its spec named before from what it
// names now.
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

// newDiskBudget counts manifests on disk.
func newDiskBudget(exempt string) *budget {
	b := newBudget(exempt)
	b.max, b.total, b.least, b.most, b.of = maxNamespaceDisk, maxTenantDisk, leastNamespaceDisk, mostDisk, "disk"
	return b
}

// newWorkBudget counts what is on disk while catalogs are read. It wakes nobody: those that are refused would take turns at being it.
func newWorkBudget(exempt string) *budget {
	b := newBudget(exempt)
	b.max, b.total, b.least, b.most, b.of = maxNamespaceWork, maxTenantWork, leastNamespaceWork, mostWork, "disk while it is read"
	return b
}

// newBudget has nobody to wake yet.
func newBudget(exempt string) *budget {
	return &budget{max: maxNamespaceBytes, total: maxTenantBytes, least: leastNamespaceBytes, most: mostBytes, of: "memory", decoding: catalog.NewDecoding(), exempt: exempt, wake: func(types.NamespacedName) {}, held: map[holder]int64{}, refused: map[types.NamespacedName]bool{}}
}

// loader reads catalogs of a namespace.
func (b *budget) loader(namespace string) fbc.Loader {
	return fbc.Loader{Limits: b.limits(namespace), Decoding: b.decoding}
}

// limits are those on one catalog of a namespace.
func (b *budget) limits(namespace string) catalog.DecodingLimits {
	if namespace == b.exempt {
		return catalog.GlobalDecoding()
	}
	return catalog.TenantDecoding()
}

// take notes the size of new content. The error says that it does not fit: then what was there before counts on.
func (b *budget) take(h holder, size int64) error {
	if h.key.Namespace == b.exempt {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check(h, size); err != nil {
		return err
	}
	if size < b.held[h] {
		defer b.wakeRefused(h.key)
	}
	b.held[h] = size
	delete(b.refused, h.key)
	return nil
}

// fits returns the error that take would, and counts nothing.
func (b *budget) fits(h holder, size int64) error {
	if h.key.Namespace == b.exempt {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.check(h, size)
}

// check notes who is refused. The caller holds the lock.
func (b *budget) check(h holder, size int64) error {
	others, all := b.others(h)
	same := b.same(h)
	if others+size > b.max {
		b.refused[h.key] = false
		return fmt.Errorf("its content takes %d MiB of %s, and the other catalogs of namespace %s take %d: together at most %d are allowed",
			mib(size+same), b.of, h.key.Namespace, mib(others-same), mib(b.max))
	}
	most := b.total
	if others+size <= b.least {
		most = b.most
	}
	if all+size > most {
		b.refused[h.key] = true
		return fmt.Errorf("its content takes %d MiB of %s, and the catalogs of all tenants may take at most %d together", mib(size+same), b.of, mib(most))
	}
	return nil
}

// holds is what counts of a holder.
func (b *budget) holds(h holder) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[h]
}

// restore counts what a holder had before. Unlike release, it leaves a refusal to be woken, by others.
func (b *budget) restore(h holder, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	smaller := size < b.held[h]
	if b.held[h] = size; size == 0 {
		delete(b.held, h)
	}
	if smaller {
		b.wakeRefused(h.key)
	}
}

// others is what the namespace's other catalogs take, and those of all namespaces. The caller holds the lock.
func (b *budget) others(h holder) (namespace, all int64) {
	for other, n := range b.held {
		if other == h {
			continue
		}
		if all += n; other.key.Namespace == h.key.Namespace {
			namespace += n
		}
	}
	return namespace, all
}

// same is what else the CatalogSource holds: the content that this is to replace. The caller holds the lock.
func (b *budget) same(h holder) (n int64) {
	for other, size := range b.held {
		if other != h && other.key == h.key {
			n += size
		}
	}
	return n
}

// release is for content that is let go.
func (b *budget) release(h holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refused, h.key)
	if _, ok := b.held[h]; ok {
		delete(b.held, h)
		b.wakeRefused(h.key)
	}
}

// wakeRefused wakes, except who gives something back, while the lock is held: who is woken only notes that.
func (b *budget) wakeRefused(by types.NamespacedName) {
	for _, key := range slices.Collect(maps.Keys(b.refused)) {
		if key != by && (key.Namespace == by.Namespace || b.refused[key]) {
			b.wake(key)
		}
	}
}

// mib rounds up.
func mib(n int64) int64 { return (n + 1<<20 - 1) >> 20 }
