package bundleimage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle/unpack"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

// unpackTimeout bounds one attempt, without the waits for other namespaces, which maxUnpackWaits bounds.
const unpackTimeout, maxUnpackWaits = 2 * time.Minute, 10 * time.Minute

var errTimeout = errors.New("the image was not read within two minutes")

// Access finds the credentials for the images of a catalog's bundles, and waits after failures.
type Access interface {
	// Access returns the credentials for an image of a catalog. secrets lists the pull secrets that the author of the catalog named.
	// The error lists secrets that could not be read.
	Access(ctx context.Context, catalog types.NamespacedName, secrets []string, pull kit.Retry) (image.Access, error)
	// Wait waits after a failed attempt, for the delay or until a retry is requested. It returns the next delay; ok is
	// false if ctx is done.
	Wait(ctx context.Context, namespace string, pull kit.Retry, pause time.Duration) (next time.Duration, ok bool)
	// Forget stops tracking what a pull depends on.
	Forget(pull kit.Retry)
}

// Options configures Images. All fields except Journal are required.
type Options struct {
	Client   *image.Client
	Disk     *disk.Store
	Decoding *catalog.Decoding
	Access   Access
	// Room returns a function that reserves disk space for reading an image of a catalog, and one that releases all of it.
	Room func(catalog types.NamespacedName) (take func(bytes int64) error, release func())
	// Turn waits until an image of a namespace's catalogs can be unpacked in memory. It returns a context for that, and a function that
	// ends it. The number of turns at the same time bounds the memory for all namespaces.
	Turn func(ctx context.Context, namespace string) (turn context.Context, end func(), err error)
	// Touch notifies the users of a catalog when the content of one of its bundle images becomes available or cannot be read.
	Touch func(catalog types.NamespacedName, image string)
	// Journal records for which namespace's catalogs images are downloaded. Their turns have their own records. The images of a suspended
	// namespace wait in its slots.
	Journal *journal.Journal
}

// Images is a manager.Runnable that unpacks bundle images on demand. It has one goroutine for each image that is being
// unpacked or has failed.
type Images struct {
	Options

	kit.Background
	slots *slots

	mu      sync.Mutex
	byImage map[bundleImage]*unpacking
}

// bundleImage identifies the image of a bundle in a catalog. content is the digest of the catalog's content if the
// image is referenced by tag: a tag is resolved once for each version of the content.
type bundleImage struct {
	catalog types.NamespacedName
	image   string
	content string
}

type unpacking struct {
	secrets []string
	// key is the image's key on disk; empty until the image has been read.
	key     string
	failure error
	// asked means that the image has been requested since the last attempt.
	asked bool
	retry kit.Retry
	// place is the image's place in the line for a slot.
	place *place
	// end stops the goroutine that was launched last.
	end func()
}

// New returns an empty Images.
func New(o Options) *Images {
	return &Images{Options: o, byImage: map[bundleImage]*unpacking{}, slots: newSlots()}
}

// Reader returns a Reader for a Snapshot. That Reader returns the manifests from the Snapshot's own Reader, and those in bundle
// images. secrets lists the pull secrets that the author of the catalog named.
func (b *Images) Reader(snap *catalog.Snapshot, secrets []string) catalog.ContentReader {
	return &reader{Images: b, inline: snap.Reader, key: snap.Key, digest: snap.Digest, secrets: secrets, packages: snap.Packages}
}

// reader is a Snapshot's Reader that includes the contents of bundle images.
type reader struct {
	*Images
	inline   catalog.ContentReader
	key      types.NamespacedName
	digest   string
	secrets  []string
	packages map[string]*catalog.Package
}

// Content implements catalog.ContentReader. The error is a *catalog.NotUnpacked until the image has been read.
func (r *reader) Content(ctx context.Context, pkg, channel, bundle string) (*catalog.Content, error) {
	content, err := r.inline.Content(ctx, pkg, channel, bundle)
	if err == nil || !errors.Is(err, catalog.ErrNoContent) {
		return content, err
	}
	p, ok := r.packages[pkg]
	if !ok || p.Bundles[bundle] == nil || p.Bundles[bundle].Image == "" {
		return nil, err
	}
	id := bundleImage{catalog: r.key, image: p.Bundles[bundle].Image}
	if !image.IsDigest(id.image) {
		id.content = r.digest
	}
	content, err = r.get(id, r.secrets, cmp.Or(catalog.Requester(ctx), r.key.Namespace))
	if waiting, ok := errors.AsType[*catalog.NotUnpacked](err); ok {
		waiting.Catalog, waiting.Bundle = r.key, bundle
	}
	return content, err
}

func (b *Images) get(id bundleImage, secrets []string, requester string) (*catalog.Content, error) {
	b.mu.Lock()
	u, ok := b.byImage[id]
	if ok && !slices.Equal(u.secrets, secrets) {
		b.remove(id)
		ok = false
	}
	if !ok {
		u = b.unpack(id, secrets)
	}
	b.ask(u, requester)
	key, failure := u.key, u.failure
	b.mu.Unlock()
	if key == "" {
		return nil, &catalog.NotUnpacked{Image: id.image, Failure: failure}
	}
	content, err := b.Disk.Bundle(key)
	if errors.Is(err, fs.ErrNotExist) {
		// The content was deleted to free disk space.
		b.mu.Lock()
		if b.byImage[id] == u && u.key == key {
			// The last goroutine may not have ended yet, and forgets its own retry when it does.
			b.ask(b.unpack(id, u.secrets), requester)
		}
		b.mu.Unlock()
		return nil, &catalog.NotUnpacked{Image: id.image}
	}
	return content, err
}

// Drop forgets the bundle images of a catalog and stops their goroutines.
func (b *Images) Drop(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.byImage {
		if id.catalog == key {
			b.remove(id)
		}
	}
}

// Keep forgets the images that were referenced by tag in other versions of the catalog's content.
func (b *Images) Keep(key types.NamespacedName, content string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.byImage {
		if id.catalog == key && id.content != "" && id.content != content {
			b.remove(id)
		}
	}
}

// remove forgets an image and stops its goroutine. The caller must hold the lock.
func (b *Images) remove(id bundleImage) {
	if u := b.byImage[id]; u != nil {
		u.end()
	}
	delete(b.byImage, id)
}

// unpack starts the goroutine of an image. The caller must hold the lock.
func (b *Images) unpack(id bundleImage, secrets []string) *unpacking {
	u := &unpacking{secrets: secrets, retry: kit.NewRetry(), place: &place{line: id.catalog.Namespace}}
	b.byImage[id] = u
	u.end = b.Launch(func(ctx context.Context) { b.follow(ctx, id, u) })
	return u
}

// ask records that a namespace has requested an image. The caller must hold the lock.
func (b *Images) ask(u *unpacking, requester string) {
	u.asked = true
	b.slots.request(u.place, requester)
}

// follow tries to read an image until it succeeds, with exponential backoff that relevant changes cut short. It retries
// only if the image was requested again, and never if the image is referenced by digest and is not a bundle.
func (b *Images) follow(ctx context.Context, id bundleImage, u *unpacking) {
	defer b.Access.Forget(u.retry)
	for pause := kit.FirstPause; ; {
		u.retry.Begin()
		key, err := b.try(ctx, id, u)
		if ctx.Err() != nil {
			return
		}
		b.mu.Lock()
		u.key, u.failure, u.asked = key, err, false
		b.slots.forget(u.place)
		b.mu.Unlock()
		b.Touch(id.catalog, id.image)
		if err == nil || image.IsDigest(id.image) && errors.Is(err, image.ErrImage) {
			return
		}
		var ok bool
		if pause, ok = b.Access.Wait(ctx, id.catalog.Namespace, u.retry, pause); !ok {
			return
		}
		b.mu.Lock()
		wanted := u.asked
		if !wanted && b.byImage[id] == u {
			delete(b.byImage, id)
		}
		b.mu.Unlock()
		if !wanted {
			return
		}
	}
}

// try stores the content of an image on disk, unless the content is already there, and returns the content's key.
func (b *Images) try(ctx context.Context, id bundleImage, u *unpacking) (key string, err error) {
	free, err := b.slots.take(ctx, u.place)
	if err != nil {
		return "", err
	}
	defer free()
	downloaded, err := b.Journal.Work(ctx, journal.Item{Group: id.catalog.Namespace, Name: "download/" + id.catalog.Namespace})
	if err != nil {
		return "", err
	}
	defer downloaded()
	ctx, _, cancel := turns.WithTimeout(ctx, unpackTimeout, maxUnpackWaits, errTimeout)
	defer cancel()
	access, unread := b.Access.Access(ctx, id.catalog, u.secrets, u.retry)
	opened, err := b.Client.Open(ctx, image.Tagged(id.image), access)
	if err != nil {
		if unread != nil {
			err = fmt.Errorf("%w; the catalog's pull secrets could not be used: %w", err, unread)
		}
		return "", err
	}
	key = disk.Key(opened.Repository, opened.Digest.String())
	if _, err := b.Disk.Bundle(key); err == nil {
		return key, nil
	}
	if err := b.read(ctx, id.catalog, opened, key, downloaded); err != nil {
		return "", err
	}
	return key, nil
}

// read stores the content of an image on disk. Only its last step, which does not depend on the registry, uses memory for the
// content. Before this step, which has to wait for its turn, it calls downloaded.
func (b *Images) read(ctx context.Context, catalog types.NamespacedName, opened *image.Image, key string, downloaded func()) error {
	dir, remove, err := b.Disk.Work()
	if err != nil {
		return err
	}
	defer remove()
	take, release := b.Room(catalog)
	defer release()
	layers, err := unpack.Spool{Dir: dir, Take: take}.Download(ctx, opened)
	if err != nil {
		return err
	}
	defer layers.Close()
	downloaded()
	ctx, end, err := b.Turn(ctx, catalog.Namespace)
	if err != nil {
		return err
	}
	defer end()
	content, err := contentOf(ctx, layers, b.Decoding)
	if err != nil {
		return err
	}
	return b.Disk.PutBundle(key, content)
}

func contentOf(ctx context.Context, layers *unpack.Layers, decoding *catalog.Decoding) (*catalog.Content, error) {
	files, err := layers.Files()
	if err != nil {
		return nil, err
	}
	content, err := fbc.Manifests(ctx, files, ".", decoding)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return nil, image.Refuse("the image is not a bundle: it has no manifests/ directory")
	case err != nil:
		return nil, image.Refuse("%w", err)
	case len(content.Manifests) == 0:
		return nil, image.Refuse("the manifests/ directory of the bundle contains no manifests")
	}
	return content, nil
}
