package extension

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/catalog/pull"
	"github.com/remit-olm/remit/pkg/image"
)

// catalogOf reads the catalog that --catalog names: a directory or a file with a file-based catalog, a directory of bundle
// directories, or an image. The caller must call end to release the catalog.
func (f *Flags) catalogOf(ctx context.Context) (snap *catalog.Snapshot, end func(), err error) {
	end = func() {}
	info, err := os.Stat(f.Catalog)
	switch {
	case err == nil && info.IsDir():
		snap, err = fbc.Loader{AnyDefault: true}.LoadDirectory(ctx, os.DirFS(f.Catalog))
	case err == nil:
		snap, err = fileCatalog(ctx, f.Catalog)
	case errors.Is(err, fs.ErrNotExist):
		snap, end, err = f.imageCatalog(ctx)
	}
	if err != nil {
		return nil, end, fmt.Errorf("catalog %q: %w", f.Catalog, err)
	}
	return snap, end, nil
}

func fileCatalog(ctx context.Context, name string) (*catalog.Snapshot, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, catalog.MaxCatalogBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > catalog.MaxCatalogBytes {
		return nil, fmt.Errorf("larger than %d bytes", catalog.MaxCatalogBytes)
	}
	return fbc.Loader{AnyDefault: true}.FromFiles(ctx, map[string][]byte{filepath.Base(name): data})
}

// imageCatalog reads the catalog in an image into a temporary directory, which end removes.
func (f *Flags) imageCatalog(ctx context.Context) (snap *catalog.Snapshot, end func(), err error) {
	end = func() {}
	if _, err := image.Reference(f.Catalog); err != nil {
		return nil, end, errors.New("no such file or directory, and not an image reference: must have the form REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST")
	}
	images, err := image.New(image.Options{Local: true, AllPlain: f.PlainHTTP})
	if err != nil {
		return nil, end, err
	}
	opened, err := images.Open(ctx, f.Catalog, image.Access{Keychain: authn.DefaultKeychain, Anywhere: true})
	if err != nil {
		return nil, end, err
	}
	store, err := disk.Open("", 0)
	if err != nil {
		return nil, end, err
	}
	end = func() { _ = store.Close() }
	read, err := pull.Read(ctx, opened, pull.Options{Disk: store, Turn: func(ctx context.Context) (context.Context, fbc.Loader, func(), error) {
		return ctx, fbc.Loader{AnyDefault: true}, func() {}, nil
	}})
	return read.Snapshot, end, err
}
