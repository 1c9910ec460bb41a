package catalogsource

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
)

// maxTenantContents bounds the manifests that a tenant's catalog carries, maxTenantFiles its files: the same manifests in base64, and
// what else there is.
const maxTenantContents, maxTenantFiles = 256 << 20, 384 << 20

// imageLimits bound what is read of one image; zero does not.
type imageLimits struct{ files, contents int64 }

func (i *images) limits(namespace string) imageLimits {
	if namespace == i.budget.exempt {
		return imageLimits{}
	}
	return imageLimits{files: maxTenantFiles, contents: maxTenantContents}
}

// oversize is content that was read and had no place beside the namespace's other catalogs.
type oversize struct {
	// digest is that of the image.
	digest       string
	memory, disk int64
}

// fits returns why content still has no place, if so.
func (i *images) fits(h holder, o oversize) error {
	if err := i.budget.fits(h, o.memory); err != nil {
		return err
	}
	return i.space.fits(h, o.disk)
}

// hold counts new content, unless it was let go meanwhile. Content that has no place is let go; what was there before counts on.
func (i *images) hold(key types.NamespacedName, e *imageEntry, digest string, snap *catalog.Snapshot) (oversize, error) {
	size := oversize{digest: digest, memory: snap.Size()}
	if contents, ok := snap.Reader.(*disk.Contents); ok {
		size.disk = contents.Size()
	}
	err := i.takeBoth(e.holder, size)
	i.mu.Lock()
	now := i.byKey[key]
	i.mu.Unlock()
	if now == nil || now.holder != e.holder {
		i.release(e.holder)
	}
	if err != nil {
		letGo(snap)
		return size, err
	}
	return oversize{}, nil
}

// takeBoth counts content in memory and on disk, or neither.
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

// release stops counting content.
func (i *images) release(h holder) {
	i.budget.release(h)
	i.space.release(h)
	i.work.release(h)
}

// letGo deletes what a catalog has on disk, unless another CatalogSource uses it.
func letGo(snap *catalog.Snapshot) {
	if snap == nil {
		return
	}
	if contents, ok := snap.Reader.(*disk.Contents); ok {
		contents.Drop()
	}
}

// letGo is for an entry that is no longer a CatalogSource's.
func (e *imageEntry) letGo() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = true
	letGo(e.good)
}

// abandon lets go of content that came too late. It stays on disk where the program ends: the next one begins with it.
func (i *images) abandon(snap *catalog.Snapshot) {
	if i.running.Err() == nil {
		letGo(snap)
	}
}

// room counts what is written, and kept in memory, of one image while it is read, also while that waits. Its methods may be
// called from several goroutines.
type room struct {
	work, memory *budget
	h            holder
	// before is what the content that is to be replaced takes in memory.
	before int64

	mu    sync.Mutex
	taken int64
}

// crowded says that there was no room for what is kept in memory of an image, once that was so many bytes.
type crowded struct {
	error
	memory int64
}

func (c crowded) Unwrap() error { return c.error }

// room makes one that has nothing yet, for what may replace content.
func (i *images) room(replaced holder) *room {
	before := i.budget.holds(replaced) // not under our lock: it wakes us under its own
	i.mu.Lock()
	defer i.mu.Unlock()
	i.serial++
	return &room{work: i.work, memory: i.budget, h: holder{fromImage, replaced.key, i.serial}, before: before}
}

// take counts bytes before they are written. The error says that others have them.
func (r *room) take(n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.work.take(r.h, r.taken+n); err != nil {
		return err
	}
	r.taken += n
	return nil
}

// keep counts what is kept in memory by now, as far as it is more than what it replaces.
func (r *room) keep(kept int64) error {
	if err := r.memory.take(r.h, max(kept-r.before, 0)); err != nil {
		return crowded{err, kept}
	}
	return nil
}

// release gives all of it back.
func (r *room) release() {
	r.work.restore(r.h, 0)
	r.memory.restore(r.h, 0)
}
