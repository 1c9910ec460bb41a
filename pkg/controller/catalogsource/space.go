package catalogsource

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/pull"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

// maxTenantContents bounds the size of the manifests in a tenant's catalog, and maxTenantFiles the size of its files,
// which contain the base64-encoded manifests and other content. maxTenantUnpacked bounds the uncompressed size of the whole image.
const maxTenantContents, maxTenantFiles, maxTenantUnpacked = 256 << 20, 384 << 20, 4 << 30

// maxTenantNames bounds the memory for the names of a catalog's files while a tenant's image is read: it is enough for 30,000 files.
const maxTenantNames = 4 << 20

// imageLimits limits how much is read from one image, in bytes; zero means no limit.
type imageLimits struct {
	files, contents, unpacked int64
	names                     int
}

func (i *images) limits(namespace string) imageLimits {
	if namespace == i.budget.exempt {
		return imageLimits{}
	}
	return imageLimits{files: maxTenantFiles, contents: maxTenantContents, unpacked: maxTenantUnpacked, names: maxTenantNames}
}

// oversize is content that was read, but exceeded the budget of the namespace or of all tenants.
type oversize struct {
	// digest is the image's digest.
	digest       string
	memory, disk int64
}

// fits returns an error if content still exceeds a budget.
func (i *images) fits(h holder, o oversize) error {
	if err := i.budget.fits(h, o.memory); err != nil {
		return err
	}
	return i.space.fits(h, o.disk)
}

// hold records the size of new content, unless its entry was removed in the meantime. If the content exceeds the
// budget, it is dropped, and the size of the previous content still counts.
func (i *images) hold(key types.NamespacedName, e *imageEntry, digest string, snap *catalog.Snapshot) (oversize, error) {
	size := oversize{digest: digest, memory: snap.Size()}
	if contents, ok := snap.Reader.(*disk.Contents); ok {
		size.disk = contents.Size()
	}
	if displays, ok := snap.Displays.(interface{ Size() int64 }); ok {
		size.disk += displays.Size()
	}
	err := i.takeBoth(e.holder, size)
	if err == nil {
		i.budget.satisfy(key)
		i.space.satisfy(key)
	}
	i.mu.Lock()
	now := i.byKey[key]
	i.mu.Unlock()
	if now == nil || now.holder != e.holder {
		i.release(e.holder)
	}
	if err != nil {
		pull.Drop(snap)
		return size, err
	}
	return oversize{}, nil
}

// takeBoth records both the in-memory and the on-disk size of content, or neither.
func (i *images) takeBoth(h holder, size oversize) error {
	if err := i.fits(h, size); err != nil {
		return err
	}
	before := i.space.holds(h)
	if err := i.space.take(h, size.disk); err != nil {
		return err
	}
	err := i.budget.take(h, size.memory)
	if err != nil {
		i.space.restore(h, before)
	}
	return err
}

// release removes the usage of a holder.
func (i *images) release(h holder) {
	i.budget.release(h)
	i.space.release(h)
	i.work.release(h)
}

// discard marks an entry as removed and drops its content.
func (e *imageEntry) discard() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.discarded = true
	pull.Drop(e.good)
}

// abandon drops content whose entry was replaced or removed during the pull. When the program ends, the content stays
// on disk for the next start.
func (i *images) abandon(snap *catalog.Snapshot) {
	if !i.IsOver() {
		pull.Drop(snap)
	}
}

// room counts the disk space and memory of one image while it is read, including while reading waits for a turn. It is
// safe for concurrent use.
type room struct {
	work, memory *budget
	h            holder
	// before is the memory of the content that will be replaced.
	before int64

	mu    sync.Mutex
	taken int64
	// refused means that there was no room on disk.
	refused bool
}

// crowded means that the memory budget was exceeded. memory is the size of the content that had been read by then.
type crowded struct {
	error
	memory int64
}

func (c crowded) Unwrap() error { return c.error }

// room returns an empty room for content that may replace other content.
func (i *images) room(replaced holder) *room {
	before := i.budget.holds(replaced) // called before i.mu is locked, because the budget holds its own lock when it calls wake
	i.mu.Lock()
	defer i.mu.Unlock()
	i.serial++
	return &room{work: i.work, memory: i.budget, h: holder{fromImage, replaced.key, i.serial}, before: before}
}

// spool implements bundleimage.Options.Room.
func (i *images) spool(catalog types.NamespacedName) (take func(bytes int64) error, release func()) {
	r := i.room(holder{by: fromImage, key: catalog})
	return r.take, r.release
}

// unpack implements bundleimage.Options.Turn.
func (i *images) unpack(ctx context.Context, namespace string) (context.Context, func(), error) {
	turn, ctx, err := i.unpacks.turnsOf(namespace).Join(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	return ctx, turn.Leave, nil
}

// registryTurn implements pull.Turn. Images in the global catalog namespace do not wait.
type registryTurn struct {
	turns     *turns.Turns
	namespace string
	isExempt  bool
	turn      *turns.Turn
}

func (i *images) registryTurn(namespace string) *registryTurn {
	return &registryTurn{turns: i.layers, namespace: namespace, isExempt: namespace == i.budget.exempt}
}

// Begin implements pull.Turn. The turn has no context of its own, because it is never stopped (see newLayerTurns).
func (r *registryTurn) Begin(ctx context.Context) (err error) {
	if r.turn == nil && !r.isExempt {
		r.turn, _, err = r.turns.Join(ctx, r.namespace)
	}
	return err
}

// End implements pull.Turn.
func (r *registryTurn) End() {
	if r.turn != nil {
		r.turn.Leave()
		r.turn = nil
	}
}

// take reserves bytes before they are written. It returns an error if the budget is exceeded.
func (r *room) take(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.work.take(r.h, r.taken+n); err != nil {
		r.refused = true
		return err
	}
	r.taken += n
	return nil
}

// keep reserves the memory in use that exceeds the memory of the replaced content.
func (r *room) keep(kept int64) error {
	if err := r.memory.take(r.h, max(kept-r.before, 0)); err != nil {
		return crowded{err, kept}
	}
	return nil
}

// release releases all reservations of the room. If the disk had enough space, the CatalogSource does not wait for any.
func (r *room) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refused {
		r.work.satisfy(r.h.key)
	}
	r.work.restore(r.h, 0)
	r.memory.restore(r.h, 0)
}
