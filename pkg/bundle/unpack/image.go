package unpack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// ErrImage says that an image is not, or holds not, what a bundle may be. No retry mends it.
var ErrImage = errors.New("refused image")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrImage, fmt.Errorf(format, args...))
}

// Image is the content of a bundle image.
type Image struct {
	// Digest is that of the image's manifest.
	Digest string
	// Files are those below manifests/ and metadata/.
	Files fs.FS
}

// Puller reads images from registries. Its zero value has no credentials.
type Puller struct {
	// Keychain finds the credentials for a registry; nil has none.
	Keychain authn.Keychain
	// PlainHTTP allows registries without TLS. Those of this machine (localhost) may always do without.
	PlainHTTP bool
	// Transport is http.DefaultTransport by default.
	Transport http.RoundTripper
}

// Reference reads the name of an image. It must name its registry: of a short name, two people mean two images.
func Reference(text string, options ...name.Option) (name.Reference, error) {
	ref, err := name.ParseReference(text, append(options, name.StrictValidation)...)
	if err != nil {
		return nil, fmt.Errorf("image %q: want REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST", text)
	}
	return ref, nil
}

// Pull reads the bundle in an image.
func (p Puller) Pull(ctx context.Context, image string) (*Image, error) {
	var how []name.Option
	if p.PlainHTTP {
		how = append(how, name.Insecure)
	}
	ref, err := Reference(image, how...)
	if err != nil {
		return nil, err
	}
	options := p.options(ctx, ref)
	manifest, digest, err := manifestOf(ref, options)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", image, err)
	}
	files, err := layers(ref.Context(), manifest, options)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", image, err)
	}
	return &Image{Digest: digest.String(), Files: files}, nil
}

func (p Puller) options(ctx context.Context, ref name.Reference) []remote.Option {
	keychain := p.Keychain
	if keychain == nil {
		keychain = authn.NewMultiKeychain()
	}
	base := p.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain),
		remote.WithTransport(&transport{base: base, plain: p.PlainHTTP, registry: ref.Context().RegistryStr()}),
	}
}

// manifestOf reads the manifest of an image, or of one of the images of an index: a bundle is the same for
// every platform, so that of linux/amd64 is taken, or else the first.
func manifestOf(ref name.Reference, options []remote.Option) (*v1.Manifest, v1.Hash, error) {
	desc, err := remote.Get(ref, options...)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	if desc.MediaType.IsIndex() {
		digest, err := choose(desc)
		if err != nil {
			return nil, v1.Hash{}, err
		}
		if desc, err = remote.Get(ref.Context().Digest(digest.String()), options...); err != nil {
			return nil, v1.Hash{}, err
		}
	}
	if !desc.MediaType.IsImage() {
		return nil, v1.Hash{}, refuse("a manifest of type %q: want an image", desc.MediaType)
	}
	image, err := desc.Image()
	if err != nil {
		return nil, v1.Hash{}, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, v1.Hash{}, refuse("its manifest: %w", err)
	}
	return manifest, desc.Digest, nil
}

func choose(desc *remote.Descriptor) (v1.Hash, error) {
	index, err := desc.ImageIndex()
	if err != nil {
		return v1.Hash{}, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, refuse("its index: %w", err)
	}
	if len(manifest.Manifests) > MaxImages {
		return v1.Hash{}, refuse("an index of more than %d images", MaxImages)
	}
	var first *v1.Descriptor
	for i, d := range manifest.Manifests {
		if !d.MediaType.IsImage() || len(d.URLs) > 0 {
			continue // another index among them, for one
		}
		if d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == "amd64" {
			return d.Digest, nil
		}
		if first == nil {
			first = &manifest.Manifests[i]
		}
	}
	if first == nil {
		return v1.Hash{}, refuse("an index without an image")
	}
	return first.Digest, nil
}

func layers(repository name.Repository, manifest *v1.Manifest, options []remote.Option) (fs.FS, error) {
	if len(manifest.Layers) > MaxLayers {
		return nil, refuse("more than %d layers", MaxLayers)
	}
	left := int64(MaxCompressedBytes)
	for _, d := range manifest.Layers {
		switch {
		case len(d.URLs) > 0 || d.MediaType == types.DockerForeignLayer:
			return nil, refuse("layer %s is to be read from elsewhere than the registry", d.Digest)
		case !d.MediaType.IsLayer():
			return nil, refuse("layer %s is of type %q", d.Digest, d.MediaType)
		case d.Size < 0 || d.Size > left:
			return nil, refuse("layers of more than %d bytes", MaxCompressedBytes)
		}
		left -= d.Size
	}
	a := newArchive()
	for _, d := range manifest.Layers {
		data, err := blob(repository.Digest(d.Digest.String()), d.Size, options)
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
		}
		if err := a.add(data); err != nil {
			return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
		}
	}
	return a.files, nil
}

// blob reads a layer as it is sent, of just the size that the manifest says. Its digest is checked by the
// library at its end, before anything of it is looked at.
func blob(ref name.Digest, size int64, options []remote.Option) ([]byte, error) {
	layer, err := remote.Layer(ref, options...)
	if err != nil {
		return nil, err
	}
	stream, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	data, err := io.ReadAll(io.LimitReader(stream, size+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != size {
		return nil, refuse("it is not of the %d bytes that the manifest says", size)
	}
	return data, nil
}
