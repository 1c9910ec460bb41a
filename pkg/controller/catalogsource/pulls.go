package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/catalog/layer"
	"github.com/remit-olm/remit/pkg/catalog/pull"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

const (
	// parseSlice is how long a catalog is parsed while others wait, and parseGrace how long its current document may then take.
	parseSlice, parseGrace = 2 * time.Second, 10 * time.Second
	// maxPullWaits bounds how much longer than pullTimeout a pull may take because it waits for those of other namespaces.
	maxPullWaits = 45 * time.Minute
	// parsePause is how long a file may take after its catalog was asked to yield.
	parsePause = 2 * time.Second

	errPullTimeout = slow("the image was not read within 15 minutes")
)

// withPullTimeout returns the context of a pull. Its waits for other namespaces do not count, up to a limit.
func withPullTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, _, cancel := turns.WithTimeout(ctx, pullTimeout, maxPullWaits, errPullTimeout)
	return ctx, cancel
}

const (
	// layerSlots bounds how many images of tenants are read from their registries at the same time, and layerMemory the memory that
	// each takes. Images that wait take none.
	layerSlots, layerMemory = 8, image.UnpackMemory + maxTenantNames
	// layerSlice is how long an image is read before its namespace is late, and layersLateFor for how long. Reading
	// is not interrupted, because a large image would have to begin again.
	layerSlice, layersLateFor = 3 * time.Minute, time.Hour
)

// newLayerTurns returns the turns in which tenants' images are read from their registries. A slow registry keeps its slot for up to pullTimeout, but then its
// namespace shares half of the slots with those of others.
func newLayerTurns() *turns.Turns {
	return &turns.Turns{Slots: layerSlots, Share: 1, Slice: layerSlice, Grace: pullTimeout + maxPullWaits, Late: errPullTimeout, LateFor: layersLateFor, LateAlone: true}
}

// newParseLanes returns lanes in which one tenant catalog and one global catalog are parsed at a time. A tenant namespace whose catalog
// did not yield in time comes after others for the time lateFor. Images of bundles cannot yield, and are small: their namespaces are not late.
func newParseLanes(global string, lateFor time.Duration) *lanes {
	one := func(lateFor time.Duration) *turns.Turns {
		return &turns.Turns{Slots: 1, Share: 1, Slice: parseSlice, Grace: parseGrace, Late: errYieldTimeout, LateFor: lateFor, Promptly: parsePause}
	}
	return &lanes{reserved: global, global: one(0), tenants: one(lateFor)}
}

// finding is the content of a new image: a catalog, or the reference by digest of an image to run as a registry. The zero
// value means that the image is not new.
type finding struct {
	snapshot *catalog.Snapshot
	registry string
	// user is the user in the configuration of an image to run.
	user string
}

// unopenedError means that the manifest of an image could not be read, for example because its registry does not respond.
type unopenedError struct{ error }

// Unwrap returns the reason.
func (e unopenedError) Unwrap() error { return e.error }

// newer pulls an image unless its digest is already loaded. For an image that was refused, it returns the same error again.
func (i *images) newer(ctx context.Context, key types.NamespacedName, e *imageEntry) (finding, error) {
	access, unread := i.secrets.Access(ctx, key, e.spec.secrets, e.retry)
	found, err := i.newerAs(ctx, key, access, e)
	if err != nil && unread != nil && !kit.Is[pull.Refused](err) {
		return finding{}, fmt.Errorf("%w; the catalog's pull secrets could not be used: %w", err, unread)
	}
	return found, err
}

func (i *images) newerAs(ctx context.Context, key types.NamespacedName, access image.Access, e *imageEntry) (finding, error) {
	digest, known, err := i.isKnown(ctx, access, e)
	if known || err != nil {
		return finding{}, err
	}
	found, digest, err := i.read(ctx, access, e, digest)
	if digest == "" {
		return finding{}, err
	}
	over, half := oversize{}, crowded{}
	switch {
	case errors.As(err, &half):
		over = oversize{digest: digest, memory: half.memory}
	case err != nil || found.snapshot == nil: // an error, or a registry to run
	case found.snapshot.IsMissingPackagesOf(e.known()):
		pull.Drop(found.snapshot)
		err = pull.Refused{Err: errors.New(warnings(found.snapshot))}
	default:
		over, err = i.hold(key, e, digest, found.snapshot)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = over
	switch {
	case kit.Is[pull.Refused](err):
		e.refused, e.refusal = digest, err
	case err == nil:
		e.loaded, e.refused, e.refusal = digest, "", nil
		return found, nil
	}
	return finding{}, err
}

// read reads the image of an entry: from disk if it is stored, and otherwise from its registry, in a turn. digest is what the name of the
// image resolves to, or "" if that is not known. read returns the digest of the image that it has read, or "".
func (i *images) read(ctx context.Context, access image.Access, e *imageEntry, digest string) (found finding, is string, err error) {
	if digest != "" {
		// Access to the image was just verified. Stored catalogs must not wait for registries of others that send slowly.
		found.snapshot, err = i.stored(ctx, e, digest)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return found, digest, err
		}
	}
	turn := i.registryTurn(e.holder.key.Namespace)
	if err := turn.Begin(ctx); err != nil {
		return finding{}, "", err
	}
	defer turn.End()
	opened, err := i.open(ctx, access, e)
	if err != nil {
		return finding{}, "", err
	}
	found.snapshot, err = i.pull(ctx, e.holder, turn, opened, e.spec.folder)
	if errors.Is(err, layer.ErrNoCatalog) {
		// Use the digest of the index, if any, because the kubelet selects the platform.
		found.registry = opened.Repository + "@" + opened.Named.String()
		found.user, err = userOf(ctx, opened)
	}
	return found, opened.Named.String(), err
}

// open returns the image of an entry. An error that may come from the registry is an unopenedError.
func (i *images) open(ctx context.Context, access image.Access, e *imageEntry) (*image.Image, error) {
	opened, err := i.client.Open(ctx, e.spec.image, access)
	if err == nil || errors.Is(err, image.ErrImage) {
		return opened, err
	}
	if _, invalid := image.Reference(e.spec.image); invalid == nil {
		err = unopenedError{err}
	}
	return nil, err
}

// userOf returns the user in the configuration of an image.
func userOf(ctx context.Context, from *image.Image) (string, error) {
	config, err := from.Config(ctx)
	if err != nil {
		return "", err
	}
	return config.Config.User, nil
}

// known returns the current content, if any.
func (e *imageEntry) known() *catalog.Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.good
}

// isKnown returns the digest of the image of an entry, and whether it is already loaded. It returns an error if the image was refused or
// still exceeds its budget. Such an image is not read again. For the first read, the digest is "" if it cannot be requested: the
// error of reading the manifest says why.
func (i *images) isKnown(ctx context.Context, access image.Access, e *imageEntry) (digest string, is bool, err error) {
	isFirst := e.loaded == "" && e.refused == "" && e.over.digest == ""
	now, err := i.client.Digest(ctx, e.spec.image, access)
	if err != nil && isFirst {
		return "", false, nil //nolint:nilerr // see above
	}
	if err != nil {
		return "", false, err
	}
	switch digest = now.String(); digest {
	case e.refused:
		return digest, false, e.refusal
	case e.loaded:
		return digest, true, nil
	case e.over.digest:
		return digest, false, i.fits(e.holder, e.over)
	}
	return digest, false, nil
}

// stored reads the catalog in the image of an entry from disk.
func (i *images) stored(ctx context.Context, e *imageEntry, digest string) (*catalog.Snapshot, error) {
	ref, err := image.Reference(e.spec.image)
	if err != nil {
		return nil, err
	}
	room := i.room(e.holder)
	defer room.release()
	got, err := pull.Stored(ctx, pull.Location{Repository: ref.Context().Name(), Named: digest}, i.options(room, nil, e.spec.folder))
	return got.Snapshot, err
}

// pull reads the catalog in an image, unless the catalog is already on disk. replaced is the holder whose content the catalog
// may replace.
func (i *images) pull(ctx context.Context, replaced holder, turn pull.Turn, from *image.Image, extract string) (*catalog.Snapshot, error) {
	room := i.room(replaced)
	defer room.release()
	got, err := pull.Read(ctx, from, i.options(room, turn, extract))
	return got.Snapshot, err
}

// options returns the options for reading a catalog with the given room. turn is nil if its registry is not read.
func (i *images) options(room *room, turn pull.Turn, extract string) pull.Options {
	namespace := room.h.key.Namespace
	limits := i.limits(namespace)
	return pull.Options{
		Disk: i.disk, Extract: extract, MaxFiles: limits.files, MaxContents: limits.contents, MaxUnpacked: limits.unpacked, Take: room.take, Displays: true,
		MaxNames: limits.names, Registry: turn,
		Turn: func(ctx context.Context) (context.Context, fbc.Loader, func(), error) {
			turn, ctx, err := i.parses.turnsOf(namespace).Join(ctx, namespace)
			if err != nil {
				return ctx, fbc.Loader{}, nil, err
			}
			return ctx, i.loader(turn, room), turn.Leave, nil
		},
	}
}

// loader returns the loader for a catalog's files.
func (i *images) loader(turn *turns.Turn, room *room) fbc.Loader {
	loader := i.budget.loader(turn.Namespace)
	loader.Between, loader.Take = turn.YieldTogether(), room.keep
	return loader
}
