package unpack

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/remit-olm/remit/pkg/image"
)

// Puller reads bundles from registries for the command line. The zero value has no credentials.
type Puller struct {
	// Keychain finds the credentials for a registry; nil means none.
	Keychain authn.Keychain
	// PlainHTTP allows registries without TLS. Registries on localhost are always allowed to use plain HTTP.
	PlainHTTP bool
}

// Pull reads the bundle in an image: the files below manifests/ and metadata/.
func (p Puller) Pull(ctx context.Context, text string) (fs.FS, error) {
	client, err := image.New(image.Options{Local: true, AllPlain: p.PlainHTTP})
	if err != nil {
		return nil, err
	}
	opened, err := client.Open(ctx, text, image.Access{Keychain: p.Keychain, Anywhere: true})
	if err != nil {
		return nil, err
	}
	files, err := Files(ctx, opened)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", text, err)
	}
	return files, nil
}

// Files reads the files below manifests/ and metadata/ of an image.
func Files(ctx context.Context, from *image.Image) (fs.FS, error) {
	if err := from.CheckLayers(MaxLayers, MaxCompressedBytes); err != nil {
		return nil, err
	}
	a := newArchive()
	for _, d := range from.Manifest.Layers {
		data, err := from.Blob(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
		}
		if err := a.add(data); err != nil {
			return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
		}
	}
	return a.files, nil
}
