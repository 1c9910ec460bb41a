package unpack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"

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
	layers, err := Spool{}.Download(ctx, opened)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", text, err)
	}
	defer layers.Close()
	files, err := layers.Files()
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", text, err)
	}
	return files, nil
}

// Spool is where Download writes the layers of an image.
type Spool struct {
	// Dir is the directory of the temporary file; "" means that of the system.
	Dir string
	// Take reserves bytes before they are written; nil means that no reservation is needed.
	Take func(bytes int64) error
}

// Layers contains the compressed layers of an image, in a temporary file: a registry that responds slowly makes it take long to
// read them, but not memory. The caller must call Close.
type Layers struct {
	file  *os.File
	parts []v1.Descriptor
}

// Download reads the layers of an image, and verifies their digests.
func (s Spool) Download(ctx context.Context, from *image.Image) (*Layers, error) {
	if err := from.CheckLayers(MaxLayers, MaxCompressedBytes); err != nil {
		return nil, err
	}
	l := &Layers{parts: from.Manifest.Layers}
	if s.Take != nil {
		if err := s.Take(l.size()); err != nil {
			return nil, err
		}
	}
	var err error
	if l.file, err = os.CreateTemp(s.Dir, "layers-"); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(l.file.Name()), l.read(ctx, from)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Layers) size() (n int64) {
	for _, d := range l.parts {
		n += d.Size
	}
	return n
}

// read writes all layers to the file, one after the other.
func (l *Layers) read(ctx context.Context, from *image.Image) error {
	for _, d := range l.parts {
		stream, err := from.Stream(ctx, d)
		if err == nil {
			_, err = io.Copy(l.file, stream)
			_ = stream.Close()
		}
		if err != nil {
			return fmt.Errorf("layer %s: %w", d.Digest, err)
		}
	}
	return nil
}

// Files reads the files below manifests/ and metadata/. They are in memory, and have at most MaxFileBytes.
func (l *Layers) Files() (fs.FS, error) {
	a := newArchive()
	at := int64(0)
	for _, d := range l.parts {
		if err := a.add(io.NewSectionReader(l.file, at, d.Size), d.Size); err != nil {
			return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
		}
		at += d.Size
	}
	return a.files, nil
}

// Close deletes the temporary file.
func (l *Layers) Close() error { return l.file.Close() }
