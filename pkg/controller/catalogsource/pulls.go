package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/layer"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
)

const (
	// parseSlice is how long a catalog is parsed while others wait, and parseGrace how long its current document may then take.
	parseSlice, parseGrace = 2 * time.Second, time.Minute
)

// newParseLanes parses one tenant catalog and one global catalog at a time.
func newParseLanes(global string) *lanes {
	one := func() *turns { return &turns{slots: 1, share: 1, slice: parseSlice, grace: parseGrace} }
	return &lanes{reserved: global, global: one(), tenants: one()}
}

// refused means that the image is invalid. It is not pulled again until it changes.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// finding is the content of a new image: a catalog, or the reference by digest of a registry to run. The zero value
// means that the image is not new.
type finding struct {
	snapshot *catalog.Snapshot
	registry string
}

// newer pulls an image unless its digest is already loaded. For an image that was refused, it returns the same error again.
func (i *images) newer(ctx context.Context, key types.NamespacedName, e *imageEntry) (finding, error) {
	access, unread := i.secrets.access(ctx, key, e.spec.secrets, e.retry)
	found, err := i.newerAs(ctx, key, access, e)
	if err != nil && unread != nil && !kit.Is[refused](err) {
		return finding{}, fmt.Errorf("%w; its pull secrets: %w", err, unread)
	}
	return found, err
}

func (i *images) newerAs(ctx context.Context, key types.NamespacedName, access image.Access, e *imageEntry) (finding, error) {
	if known, err := i.isKnown(ctx, access, e); known || err != nil {
		return finding{}, err
	}
	opened, err := i.client.Open(ctx, e.spec.image, access)
	if err != nil {
		return finding{}, err
	}
	found := finding{}
	found.snapshot, err = i.pull(ctx, e.holder, opened, e.spec.folder)
	over, half := oversize{}, crowded{}
	switch {
	case errors.Is(err, layer.ErrNoCatalog):
		// Use the digest of the index, if any, because the kubelet selects the platform.
		found.registry, err = opened.Repository+"@"+opened.Named.String(), nil
	case errors.As(err, &half):
		over = oversize{digest: opened.Named.String(), memory: half.memory}
	case err == nil && found.snapshot.IsMissingPackagesOf(e.known()):
		dropContents(found.snapshot)
		err = refused{errors.New(warnings(found.snapshot))}
	case err == nil:
		over, err = i.hold(key, e, opened.Named.String(), found.snapshot)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = over
	switch {
	case kit.Is[refused](err):
		e.refused, e.refusal = opened.Named.String(), err
	case err == nil:
		e.loaded, e.refused, e.refusal = opened.Named.String(), "", nil
		return found, nil
	}
	return finding{}, err
}

// known returns the current content, if any.
func (e *imageEntry) known() *catalog.Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.good
}

// isKnown reports whether the image of an entry is already loaded. It returns an error if the image was refused or
// still exceeds its budget; neither is read again.
func (i *images) isKnown(ctx context.Context, access image.Access, e *imageEntry) (bool, error) {
	if e.loaded == "" && e.refused == "" && e.over.digest == "" {
		return false, nil
	}
	now, err := i.client.Digest(ctx, e.spec.image, access)
	if err != nil {
		return false, err
	}
	switch now.String() {
	case e.refused:
		return false, e.refusal
	case e.loaded:
		return true, nil
	case e.over.digest:
		return false, i.fits(e.holder, e.over)
	}
	return false, nil
}

// pull reads the catalog in an image through temporary files, unless it is already on disk. It can replace the content
// of a holder.
func (i *images) pull(ctx context.Context, of holder, from *image.Image, extract string) (*catalog.Snapshot, error) {
	folder, err := layer.Folder(ctx, from, extract)
	if err != nil {
		return nil, asRefused(err)
	}
	key := disk.Key(from.Repository, from.Digest.String(), folder)
	snap, err := i.disk.Snapshot(key)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return snap, err
	}
	dir, remove, err := i.disk.Work()
	if err != nil {
		return nil, err
	}
	defer remove()
	room := i.room(of)
	defer room.release()
	limits := i.limits(of.key.Namespace)
	if err := layer.Extract(ctx, from, folder, layer.Target{Dir: dir, Max: limits.files, Take: room.take}); err != nil {
		return nil, asRefused(err)
	}
	turn, ctx, err := i.parses.of(of.key.Namespace).join(ctx, of.key.Namespace)
	if err != nil {
		return nil, err
	}
	defer turn.leave()
	contents, err := i.disk.NewContents(limits.contents, room.take)
	if err != nil {
		return nil, err
	}
	return i.parse(ctx, files{key, dir, room}, contents, turn)
}

// files describes the temporary files of a catalog: their key on disk, directory and reservation.
type files struct {
	key, dir string
	room     *room
}

func (i *images) parse(ctx context.Context, from files, contents *disk.Contents, turn *turn) (*catalog.Snapshot, error) {
	loader := i.budget.loader(turn.namespace)
	loader.Contents, loader.Between, loader.Take = contents, turn.yieldTogether(), from.room.keep
	snap, err := loader.Load(ctx, os.DirFS(from.dir))
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case contents.Err() != nil:
		err = contents.Err() // an error of the local disk, not of the image
	case errors.As(err, new(crowded)): // caused by the other catalogs
	case err != nil:
		err = refused{fmt.Errorf("its file-based catalog: %w", err)}
	default:
		err = i.disk.PutSnapshot(from.key, snap, contents)
	}
	if err != nil {
		contents.Discard()
		return nil, err
	}
	return snap, nil
}

// asRefused marks permanent errors of the image.
func asRefused(err error) error {
	if errors.Is(err, image.ErrImage) {
		return refused{err}
	}
	return err
}
