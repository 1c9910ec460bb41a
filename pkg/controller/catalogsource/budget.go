package catalogsource

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	sizes "github.com/remit-olm/remit/pkg/lib/budget"
)

// Limits for the catalogs of tenants. They do not apply to catalogs in the global catalog namespace, whose authors act
// on behalf of the whole cluster, or to directories, which the installation configures.
const (
	// maxNamespaceBytes bounds the estimated memory used by one namespace's catalogs. It is enough for one catalog of the
	// maximum size, or for one of the largest published catalogs, which count for about 37 MiB. maxTenantBytes bounds the total of all namespaces.
	// Beyond that total, each namespace still gets leastNamespaceBytes, until the total reaches mostBytes (see sizes.Room).
	maxNamespaceBytes, maxTenantBytes, leastNamespaceBytes, mostBytes = 64 << 20, 384 << 20, 4 << 20, 512 << 20
	// The same limits for manifests on disk.
	maxNamespaceDisk, maxTenantDisk, leastNamespaceDisk, mostDisk = 512 << 20, 1 << 30, 32 << 20, 1536 << 20
	// The same limits for temporary files while catalogs are read. The limit of a namespace is sufficient for maxPulls catalogs.
	maxNamespaceWork, maxTenantWork, leastNamespaceWork, mostWork = maxPulls * (maxTenantFiles + maxTenantContents), 3 << 30, 64 << 20, 4 << 30
)

// MaxMemory bounds the estimated memory for the catalogs of tenants, and for what is decoded and received from all registries, in bytes.
// MaxLayers bounds that for reading the layers of tenants' images.
const (
	MaxMemory = mostBytes + catalog.AllDecodingMemory + (tenantListings+tenantBundles+globalLoads)*messageMemory
	MaxLayers = layerSlots * layerMemory
)

// budget enforces one set of these limits. It refuses content that exceeds them. When other content shrinks or is
// removed, it wakes the CatalogSources whose content was refused: those in the same namespace and, if all namespaces together
// leave no room, those in all namespaces.
//
// Content that was admitted stays until it is replaced or removed. If another namespace then has no room for its share, the
// namespaces above theirs cannot grow, and what becomes free is left to those that wait. A program that starts admits everything
// again, and leaves each namespace its share until its catalogs have been tried (see images.expect).
type budget struct {
	// max bounds the usage of one namespace, and room that of all together.
	max  int64
	room sizes.Room
	// resource is the name of the limited resource, for messages.
	resource string
	// decoding limits the memory that all loaders together use for decoding.
	decoding *catalog.Decoding
	// exempt is the namespace to which no limits apply.
	exempt string
	wake   func(types.NamespacedName)

	mu   sync.Mutex
	used map[holder]int64
	// refused contains the CatalogSources whose content was refused. The value is true if all namespaces together left no room.
	refused map[types.NamespacedName]bool
	// wanted is what the namespace of a CatalogSource needs for content for which there was no room. expected contains the
	// CatalogSources that existed when the program started and have not been tried since. Others reserve nothing until
	// the size of their content is known.
	wanted   map[types.NamespacedName]int64
	expected map[types.NamespacedName]bool
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
	b.max, b.room, b.resource = maxNamespaceDisk, sizes.Room{Total: maxTenantDisk, Least: leastNamespaceDisk, Most: mostDisk}, "disk"
	return b
}

// newWorkBudget returns the budget for temporary files. The budget never wakes CatalogSources, because refused CatalogSources
// would wake each other endlessly.
func newWorkBudget(exempt string) *budget {
	b := newBudget(exempt)
	b.max, b.room, b.resource = maxNamespaceWork, sizes.Room{Total: maxTenantWork, Least: leastNamespaceWork, Most: mostWork}, "temporary disk space"
	return b
}

// newBudget returns the budget for memory. The caller sets wake.
func newBudget(exempt string) *budget {
	return &budget{
		max: maxNamespaceBytes, room: sizes.Room{Total: maxTenantBytes, Least: leastNamespaceBytes, Most: mostBytes}, resource: "memory", decoding: catalog.NewDecoding(), exempt: exempt,
		wake: func(types.NamespacedName) {}, used: map[holder]int64{}, refused: map[types.NamespacedName]bool{}, wanted: map[types.NamespacedName]int64{}, expected: map[types.NamespacedName]bool{},
	}
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
func (b *budget) take(h holder, size int64) error { return b.takeWith(h, size, 0, b.holds(h)) }

// takeWith is take for content that needs more bytes only while it is received. It grows if it is larger than the content that it
// replaces, or replaces none.
func (b *budget) takeWith(h holder, size, more, replaced int64) error {
	if h.key.Namespace == b.exempt {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.check(h, size+more, size > replaced || replaced == 0); err != nil {
		return err
	}
	if size+more < b.used[h] {
		defer b.wakeRefused(h.key)
	}
	b.used[h] = size + more
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
	return b.check(h, size, size > b.used[h])
}

// check returns an error if the size exceeds a limit, and records the refusal. The caller must hold the lock.
func (b *budget) check(h holder, size int64, grows bool) error {
	own := b.others(h)
	same := b.replacedUsage(h)
	if own+size > b.max {
		b.refused[h.key] = false
		return fmt.Errorf("the catalog's content needs %d MiB of %s, and the other catalogs of namespace %s use %d MiB; together, at most %d MiB are allowed",
			mib(size+same), b.resource, h.key.Namespace, mib(own-same), mib(b.max))
	}
	q := sizes.Request{Used: own + size, Grows: grows, Others: b.usage(h.key.Namespace)}
	q.Waits = b.waits(h.key.Namespace)
	if size > b.used[h] && !b.room.Admits(q) {
		b.refused[h.key], b.wanted[h.key] = true, q.Used
		return b.describe(q, size+same)
	}
	if b.wanted[h.key] <= q.Used {
		delete(b.wanted, h.key)
	}
	return nil
}

// describe returns the error for content of a namespace that is refused because of other namespaces.
func (b *budget) describe(q sizes.Request, size int64) error {
	most, all := b.room.Total, q.Used
	if q.Used <= b.room.Least {
		most = b.room.Most
	}
	for _, u := range q.Others {
		all += u.Used
	}
	if all > most {
		return fmt.Errorf("the catalog's content needs %d MiB of %s, but the catalogs of all tenants together can use at most %d MiB", mib(size), b.resource, mib(most))
	}
	return fmt.Errorf("the catalog's content needs %d MiB of %s, but what is left of the %d MiB for the catalogs of all tenants is for namespaces that use less; the share of a namespace is %d MiB now",
		mib(size), b.resource, mib(most), b.room.Share(q)>>20)
}

// expect records the CatalogSources that exist when the program starts, so that the namespace of each is left its share. The caller
// must call settle for each when it was tried, and for all after some time.
func (b *budget) expect(keys ...types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		if key.Namespace != b.exempt {
			b.expected[key] = true
		}
	}
}

// settle ends what expect began. When no CatalogSource is expected any more, it wakes those that were refused because of other
// namespaces.
func (b *budget) settle(keys ...types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := len(b.expected)
	for _, key := range keys {
		delete(b.expected, key)
	}
	if was > 0 && len(b.expected) == 0 {
		b.wakeRefused(types.NamespacedName{})
	}
}

// satisfy forgets that a CatalogSource was refused: its content was admitted, and can be smaller than what was refused. Then, others can
// use what was left for it.
func (b *budget) satisfy(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.refused, key)
	if _, ok := b.wanted[key]; ok {
		delete(b.wanted, key)
		b.wakeRefused(key)
	}
}

// isRefused reports whether a CatalogSource has content for which there was no room.
func (b *budget) isRefused(key types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.refused[key]
	return ok
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

// others returns the usage of all holders except h in its namespace. The caller must hold the lock.
func (b *budget) others(h holder) (n int64) {
	for other, size := range b.used {
		if other != h && other.key.Namespace == h.key.Namespace {
			n += size
		}
	}
	return n
}

// usage returns what each namespace uses and wants, except one. The caller must hold the lock.
func (b *budget) usage(except string) []sizes.Usage {
	all := map[string]sizes.Usage{}
	for h, size := range b.used {
		u := all[h.key.Namespace]
		u.Used += size
		all[h.key.Namespace] = u
	}
	want := func(key types.NamespacedName, n int64) {
		u := all[key.Namespace]
		u.Wants = max(u.Wants, n)
		all[key.Namespace] = u
	}
	for key, n := range b.wanted {
		want(key, n)
	}
	for key := range b.expected {
		want(key, sizes.Unknown)
	}
	delete(all, except)
	return slices.Collect(maps.Values(all))
}

// waits reports whether a namespace waits for content. The caller must hold the lock.
func (b *budget) waits(namespace string) bool {
	isIn := func(key types.NamespacedName) bool { return key.Namespace == namespace }
	return slices.ContainsFunc(slices.Collect(maps.Keys(b.wanted)), isIn) || slices.ContainsFunc(slices.Collect(maps.Keys(b.expected)), isIn)
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
	_, isUsed := b.used[h]
	_, isWanted := b.wanted[h.key]
	delete(b.used, h)
	delete(b.refused, h.key)
	delete(b.wanted, h.key)
	if isUsed || isWanted {
		b.wakeRefused(h.key)
	}
}

// wakeRefused wakes the refused CatalogSources other than "by": those in the same namespace, and those refused because
// of other namespaces. The caller must hold the lock; wake must not block.
func (b *budget) wakeRefused(by types.NamespacedName) {
	for _, key := range slices.Collect(maps.Keys(b.refused)) {
		if key != by && (key.Namespace == by.Namespace || b.refused[key]) {
			b.wake(key)
		}
	}
}

// mib converts bytes to MiB, rounded up.
func mib(n int64) int64 { return (n + 1<<20 - 1) >> 20 }
