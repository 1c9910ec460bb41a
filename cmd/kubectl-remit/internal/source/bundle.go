package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/bundle/unpack"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/image"
)

// Bundle is a bundle with the name of its package, which its manifests do not contain.
type Bundle struct {
	*bundle.Bundle
	Package string
	// Content is the content that the bundle was parsed from.
	Content *catalog.Content
}

// parts are the required parts of a bundle directory.
var parts = []string{"manifests", "metadata/annotations.yaml"}

// Load reads the bundle that an argument refers to: a directory with manifests/ and metadata/, or an image.
func (f *Flags) Load(ctx context.Context, arg string) (*Bundle, error) {
	b, err := f.load(ctx, arg)
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", arg, err)
	}
	return b, nil
}

func (f *Flags) load(ctx context.Context, arg string) (*Bundle, error) {
	info, err := os.Stat(arg)
	switch {
	case err == nil && !info.IsDir():
		return nil, errors.New("not a directory")
	case err == nil:
		return read(ctx, os.DirFS(arg))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if _, err := image.Reference(arg); err != nil {
		return nil, errors.New("no such directory, and not an image reference: must have the form REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST")
	}
	return f.pull(ctx, arg)
}

// LoadImage reads the bundle in an image that a catalog names. In contrast to an argument of the user, it never names a directory.
func (f *Flags) LoadImage(ctx context.Context, ref string) (*Bundle, error) {
	if _, err := image.Reference(ref); err != nil {
		return nil, fmt.Errorf("bundle %q: %w", ref, err)
	}
	b, err := f.pull(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", ref, err)
	}
	return b, nil
}

func (f *Flags) pull(ctx context.Context, ref string) (*Bundle, error) {
	files, err := unpack.Puller{Keychain: authn.DefaultKeychain, PlainHTTP: f.PlainHTTP}.Pull(ctx, ref)
	if err != nil {
		return nil, err
	}
	return read(ctx, files)
}

func read(ctx context.Context, fsys fs.FS) (*Bundle, error) {
	for _, part := range parts {
		if _, err := fs.Stat(fsys, part); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("not a bundle: it has no %s", part)
		}
	}
	snapshot, err := fbc.LoadDirectory(ctx, fsys)
	if err != nil {
		return nil, err
	}
	if len(snapshot.Warnings) > 0 {
		return nil, errors.New(strings.Join(snapshot.Warnings, "; "))
	}
	pkg, name, err := singleBundle(snapshot)
	if err != nil {
		return nil, err
	}
	content, err := snapshot.Reader.Content(ctx, pkg, "", name)
	if err != nil {
		return nil, err
	}
	b, err := bundle.ParseContent(ctx, content)
	if err != nil {
		return nil, err
	}
	return &Bundle{Bundle: b, Package: pkg, Content: content}, nil
}

// singleBundle returns the bundle of a directory that must contain exactly one.
func singleBundle(s *catalog.Snapshot) (pkg, name string, err error) {
	n := 0
	for _, p := range s.PackageNames() {
		for b := range s.Packages[p].Bundles {
			pkg, name = p, b
			n++
		}
	}
	if n != 1 {
		return "", "", fmt.Errorf("must contain exactly one bundle, but has %d", n)
	}
	return pkg, name, nil
}
