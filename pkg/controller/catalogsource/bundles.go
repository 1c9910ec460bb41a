package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/bundle/unpack"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/image"
)

const (
	// maxUnpacks bounds the bundles of one namespace's catalogs that are unpacked concurrently.
	maxUnpacks = 4
	// unpackTimeout bounds one attempt.
	unpackTimeout = 2 * time.Minute
)

// bundles is a manager.Runnable that unpacks bundle images on demand. It has one goroutine for each image that is being
// unpacked or has failed. Callers are woken through the Store.
type bundles struct {
	client   *image.Client
	decoding *catalog.Decoding
	disk     *disk.Store
	secrets  *pullSecrets
	touch    func(types.NamespacedName)

	background
	slots slots

	mu      sync.Mutex
	byImage map[bundleImage]*unpacking
}

// bundleImage identifies the image of a bundle in a catalog. A tag is resolved once for each content of the catalog.
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
	// asked means that the image was requested since the last attempt.
	asked bool
	retry retry
	// end ends the goroutine of the last launch.
	end func()
}

func newBundles(client *image.Client, store *disk.Store, decoding *catalog.Decoding, touch func(types.NamespacedName)) *bundles {
	return &bundles{client: client, decoding: decoding, disk: store, touch: touch,
		byImage: map[bundleImage]*unpacking{}, slots: slots{max: maxUnpacks}}
}

// reader is a Snapshot's Reader that includes the contents of bundle images.
type reader struct {
	*bundles
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
	of := bundleImage{catalog: r.key, image: p.Bundles[bundle].Image}
	if !isDigest(of.image) {
		of.content = r.digest
	}
	content, err = r.get(of, r.secrets)
	if waiting, ok := errors.AsType[*catalog.NotUnpacked](err); ok {
		waiting.Catalog, waiting.Bundle = r.key, bundle
	}
	return content, err
}

func (b *bundles) get(of bundleImage, secrets []string) (*catalog.Content, error) {
	b.mu.Lock()
	u, ok := b.byImage[of]
	if ok && !slices.Equal(u.secrets, secrets) {
		b.remove(of)
		ok = false
	}
	if !ok {
		u = &unpacking{secrets: secrets, retry: newRetry()}
		b.byImage[of] = u
		b.unpack(of, u)
	}
	u.asked = true
	key, failure := u.key, u.failure
	b.mu.Unlock()
	if key == "" {
		return nil, &catalog.NotUnpacked{Image: of.image, Failure: failure}
	}
	content, err := b.disk.Bundle(key)
	if errors.Is(err, fs.ErrNotExist) {
		// It was deleted to make space for others.
		b.mu.Lock()
		if b.byImage[of] == u && u.key == key {
			u.key = ""
			b.unpack(of, u)
		}
		b.mu.Unlock()
		return nil, &catalog.NotUnpacked{Image: of.image}
	}
	return content, err
}

// drop removes the images that a CatalogSource requested.
func (b *bundles) drop(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for of := range b.byImage {
		if of.catalog == key {
			b.remove(of)
		}
	}
}

// keep removes the images that an earlier content of the CatalogSource's catalog requested by tag.
func (b *bundles) keep(key types.NamespacedName, content string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for of := range b.byImage {
		if of.catalog == key && of.content != "" && of.content != content {
			b.remove(of)
		}
	}
}

// remove stops the goroutine of an image. The caller must hold the lock.
func (b *bundles) remove(of bundleImage) {
	if u := b.byImage[of]; u != nil {
		u.end()
	}
	delete(b.byImage, of)
}

// unpack starts the goroutine of an image. The caller must hold the lock.
func (b *bundles) unpack(of bundleImage, u *unpacking) {
	u.end = b.launch(func(ctx context.Context) { b.follow(ctx, of, u) })
}

// follow tries to read an image, with exponential backoff that relevant changes interrupt, as long as the image is
// requested. If the image is referenced by digest and is not a bundle, it does not retry.
func (b *bundles) follow(ctx context.Context, of bundleImage, u *unpacking) {
	defer b.secrets.forget(u.retry)
	for pause := firstReload; ; {
		u.retry.begin()
		key, err := b.try(ctx, of, u)
		if ctx.Err() != nil {
			return
		}
		b.mu.Lock()
		u.key, u.failure, u.asked = key, err, false
		b.mu.Unlock()
		b.touch(of.catalog)
		if err == nil || isDigest(of.image) && errors.Is(err, image.ErrImage) {
			return
		}
		var ok bool
		if pause, ok = b.secrets.wait(ctx, of.catalog.Namespace, u.retry, pause); !ok {
			return
		}
		b.mu.Lock()
		wanted := u.asked
		if !wanted && b.byImage[of] == u {
			delete(b.byImage, of)
		}
		b.mu.Unlock()
		if !wanted {
			return
		}
	}
}

// try reads an image, or finds its content on disk.
func (b *bundles) try(ctx context.Context, of bundleImage, u *unpacking) (key string, err error) {
	free, err := b.slots.take(ctx, of.catalog.Namespace)
	if err != nil {
		return "", err
	}
	defer free()
	ctx, cancel := context.WithTimeout(ctx, unpackTimeout)
	defer cancel()
	access, unread := b.secrets.access(ctx, of.catalog, u.secrets, u.retry)
	opened, err := b.client.Open(ctx, image.Tagged(of.image), access)
	if err != nil {
		if unread != nil {
			err = fmt.Errorf("%w; the catalog's pull secrets: %w", err, unread)
		}
		return "", err
	}
	key = disk.Key(opened.Repository, opened.Digest.String())
	if _, err := b.disk.Bundle(key); err == nil {
		return key, nil
	}
	content, err := contentOf(ctx, opened, b.decoding)
	if err != nil {
		return "", err
	}
	return key, b.disk.PutBundle(key, content)
}

func contentOf(ctx context.Context, opened *image.Image, decoding *catalog.Decoding) (*catalog.Content, error) {
	files, err := unpack.Files(ctx, opened)
	if err != nil {
		return nil, err
	}
	content, err := fbc.Manifests(ctx, files, ".", decoding)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return nil, image.Refuse("it is not a bundle: it has no directory manifests/")
	case err != nil:
		return nil, image.Refuse("%w", err)
	case len(content.Manifests) == 0:
		return nil, image.Refuse("its directory manifests/ contains no manifests")
	}
	return content, nil
}

// isDigest reports whether an image is referenced by digest.
func isDigest(text string) bool { return strings.Contains(text, "@") }
