package image

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Options of New. The zero value asks registries where images' names say, by TLS with the system's authorities.
type Options struct {
	// Mirrors are asked first, in order.
	Mirrors []Mirror
	// Authorities are PEM certificates that are trusted beside the system's.
	Authorities [][]byte
	// Plain are registries, as images' names give them, that may do without TLS.
	Plain []string
	// AllPlain lets every registry do without TLS, Local those of this machine. They are for a person at a
	// command line.
	AllPlain, Local bool
	// Private are registries at private addresses from which images of tenants may be pulled. Those of Plain and Mirrors
	// need not be among them.
	Private Private
}

// Client reads images. It may be used from several goroutines.
type Client struct {
	mirrors []Mirror
	plain   func(registry string) bool
	// trusted reaches any address, guarded none of this machine or its link, and only private ones that are allowed.
	trusted, guarded *transport
}

// New checks the options.
func New(o Options) (*Client, error) {
	authorities, err := pool(o.Authorities)
	if err != nil {
		return nil, err
	}
	plain := func(registry string) bool {
		return o.AllPlain || slices.Contains(o.Plain, registry) || o.Local && isThisMachine(registry)
	}
	allowed := o.Private
	for _, m := range o.Mirrors {
		host, _, _ := strings.Cut(m.Target, "/")
		allowed.hosts = append(slices.Clone(allowed.hosts), host)
	}
	guarded := newTransport(authorities, plain, guard(plain, allowed))
	guarded.allowed = allowed
	return &Client{
		mirrors: o.Mirrors,
		plain:   plain,
		trusted: newTransport(authorities, plain, nil),
		guarded: guarded,
	}, nil
}

func pool(authorities [][]byte) (*x509.CertPool, error) {
	if len(authorities) == 0 {
		return nil, nil
	}
	all, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("system's certificate authorities: %w", err)
	}
	for _, pem := range authorities {
		if !all.AppendCertsFromPEM(pem) {
			return nil, errors.New("a file of certificate authorities holds no PEM certificate")
		}
	}
	return all, nil
}

// Access is on whose behalf an image is read.
type Access struct {
	// Keychain finds the credentials for a registry; nil has none.
	Keychain authn.Keychain
	// Anywhere allows registries at private addresses, at this machine's own and at its link's (where clouds keep the
	// machine's credentials). A registry that may do without TLS is allowed to everybody: the installation
	// has named it.
	Anywhere bool
}

// Image is one whose manifest was read.
type Image struct {
	// Repository is that of the image's name, whichever mirror it came from.
	Repository string
	// Digest is that of Manifest; Named that of what the name stands for, an index perhaps.
	Digest, Named v1.Hash
	Manifest      *v1.Manifest

	client *Client
	at     name.Repository
	access Access
}

// Open reads the manifest of an image: of an index that of one of its images (see choose).
func (c *Client) Open(ctx context.Context, text string, access Access) (*Image, error) {
	ref, err := Reference(text)
	if err != nil {
		return nil, err
	}
	return first(c, ref, func(at name.Reference) (*Image, error) {
		image := &Image{Repository: ref.Context().Name(), client: c, at: at.Context(), access: access}
		return image, image.open(at, c.options(ctx, at.Context(), access))
	})
}

// Digest asks for what an image's name stands for now, without reading it.
func (c *Client) Digest(ctx context.Context, text string, access Access) (v1.Hash, error) {
	ref, err := Reference(text)
	if err != nil {
		return v1.Hash{}, err
	}
	return first(c, ref, func(at name.Reference) (v1.Hash, error) {
		desc, err := remote.Head(at, c.options(ctx, at.Context(), access)...)
		if err != nil {
			return v1.Hash{}, err
		}
		return desc.Digest, nil
	})
}

// first is the first answer of an image's places. An image that is refused was found: no other place is asked.
func first[T any](c *Client, ref name.Reference, ask func(at name.Reference) (T, error)) (T, error) {
	var none T
	at, err := places(ref, c.mirrors, c.plain)
	if err != nil {
		return none, err
	}
	var problems []error
	for _, place := range at {
		got, err := ask(place)
		if err == nil {
			return got, nil
		}
		if err = fmt.Errorf("image %q: %w", place, withoutURL(err)); errors.Is(err, ErrImage) {
			return none, err
		}
		problems = append(problems, err)
	}
	return none, errors.Join(problems...)
}

// withoutURL leaves out where a request went in the end: a registry may have sent us on to a signed URL.
func withoutURL(err error) error {
	if at, ok := err.(*url.Error); ok { //nolint:errorlint // one among several is of the registry itself
		return at.Err
	}
	return err
}

func (c *Client) options(ctx context.Context, at name.Repository, access Access) []remote.Option {
	keychain := access.Keychain
	if keychain == nil {
		keychain = authn.NewMultiKeychain()
	}
	through := c.guarded
	if access.Anywhere {
		through = c.trusted
	}
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain), remote.WithTransport(through.to(at.RegistryStr()))}
}

// open reads the manifest of an image, or of one of the images of an index.
func (i *Image) open(at name.Reference, options []remote.Option) error {
	desc, err := remote.Get(at, options...)
	if err != nil {
		return err
	}
	i.Named = desc.Digest
	if desc.MediaType.IsIndex() {
		digest, err := choose(desc)
		if err != nil {
			return err
		}
		if desc, err = remote.Get(i.at.Digest(digest.String()), options...); err != nil {
			return err
		}
	}
	if !desc.MediaType.IsImage() {
		return Refuse("a manifest of type %q: want an image", desc.MediaType)
	}
	image, err := desc.Image()
	if err != nil {
		return err
	}
	if i.Manifest, err = image.Manifest(); err != nil {
		return Refuse("its manifest: %w", err)
	}
	i.Digest = desc.Digest
	return nil
}

// choose takes the image of linux/amd64, or else the first: what is read here is the same for every platform.
func choose(desc *remote.Descriptor) (v1.Hash, error) {
	index, err := desc.ImageIndex()
	if err != nil {
		return v1.Hash{}, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, Refuse("its index: %w", err)
	}
	if len(manifest.Manifests) > MaxImages {
		return v1.Hash{}, Refuse("an index of more than %d images", MaxImages)
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
		return v1.Hash{}, Refuse("an index without an image")
	}
	return first.Digest, nil
}
