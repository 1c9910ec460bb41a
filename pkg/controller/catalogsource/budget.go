package catalogsource

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxNamespaceBytes bounds what the catalogs of one namespace take in memory together, estimated: what the largest
// one may, or some fifty of those that are published. Those of the global catalog namespace, whose authors speak for
// the whole cluster, and directories, which the installation maps, do not count.
const maxNamespaceBytes = 256 << 20

// budget keeps to that. What is over is refused, and its CatalogSource woken when another one of the namespace is
// smaller or gone.
type budget struct {
	max int64
	// exempt is the namespace that is not bounded.
	exempt string
	wake   func(types.NamespacedName)

	mu      sync.Mutex
	held    map[holder]int64
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

// newBudget has nobody to wake yet.
func newBudget(exempt string) *budget {
	return &budget{max: maxNamespaceBytes, exempt: exempt, wake: func(types.NamespacedName) {}, held: map[holder]int64{}, refused: map[types.NamespacedName]bool{}}
}

// take notes the size of new content. The error says that it does not fit: then what was there before counts on.
func (b *budget) take(h holder, size int64) error {
	if h.key.Namespace == b.exempt {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	others := int64(0)
	for other, n := range b.held {
		if other.key.Namespace == h.key.Namespace && other != h {
			others += n
		}
	}
	if others+size > b.max {
		b.refused[h.key] = true
		return fmt.Errorf("its content takes %d MiB of memory, and the other catalogs of namespace %s take %d: together at most %d are allowed",
			mib(size), h.key.Namespace, mib(others), mib(b.max))
	}
	if size < b.held[h] {
		defer b.wakeRefused(h.key.Namespace)
	}
	b.held[h] = size
	delete(b.refused, h.key)
	return nil
}

// release is for content that is let go.
func (b *budget) release(h holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refused, h.key)
	if _, ok := b.held[h]; ok {
		delete(b.held, h)
		b.wakeRefused(h.key.Namespace)
	}
}

// wakeRefused wakes while the lock is held: who is woken only notes that.
func (b *budget) wakeRefused(namespace string) {
	for _, key := range slices.Collect(maps.Keys(b.refused)) {
		if key.Namespace == namespace {
			b.wake(key)
		}
	}
}

// mib rounds up.
func mib(n int64) int64 { return (n + 1<<20 - 1) >> 20 }
