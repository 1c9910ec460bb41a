package image

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	remotetransport "github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Options contains the options of New. The zero value connects to registries over TLS, trusts only the system's
// certificate authorities, and uses no mirrors.
type Options struct {
	// Mirrors are tried in order, before the registry itself.
	Mirrors []Mirror
	// Authorities contains PEM certificates that are trusted in addition to the system's certificate authorities.
	Authorities [][]byte
	// Plain lists the registries that can use plain HTTP, as written in image names.
	Plain []string
	// AllPlain allows plain HTTP for every registry. Local allows it for registries on localhost. Both are intended for
	// command-line tools.
	AllPlain, Local bool
	// Private lists registries at private addresses from which tenants can pull images. Registries in Plain and mirrors
	// are always allowed.
	Private Private
}

// Client reads images. It is safe for concurrent use.
type Client struct {
	mirrors []Mirror
	plain   func(registry string) bool
	// trusted can connect to any address. guarded cannot connect to local addresses, and can connect to private
	// addresses only if they are allowed.
	trusted, guarded *transport
}

// New returns a Client, or an error if the options are invalid.
func New(o Options) (*Client, error) {
	authorities, err := pool(o.Authorities)
	if err != nil {
		return nil, err
	}
	plain := func(registry string) bool {
		return o.AllPlain || slices.Contains(o.Plain, registry) || o.Local && isLocalhost(registry)
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
		return nil, fmt.Errorf("load the system's certificate authorities: %w", err)
	}
	for _, pem := range authorities {
		if !all.AppendCertsFromPEM(pem) {
			return nil, errors.New("a certificate authority file contains no PEM certificates")
		}
	}
	return all, nil
}

// Access determines which registries a caller can reach, and with which credentials.
type Access struct {
	// Keychain finds the credentials for a registry; nil means none.
	Keychain authn.Keychain
	// Anywhere allows registries at private and local addresses, including link-local addresses, where cloud providers serve the
	// machine's credentials. Registries in Options.Plain are allowed for every caller, because the administrator has configured
	// them.
	Anywhere bool
}

// explain adds the reason why credentials could not be read to the error of a registry that refuses access.
func (a Access) explain(err error) error {
	keychain, ok := a.Keychain.(interface{ Check() error })
	if refused, isRefused := errors.AsType[*remotetransport.Error](err); !ok || !isRefused || !slices.Contains(refusals(), refused.StatusCode) {
		return err
	}
	if problem := keychain.Check(); problem != nil {
		return fmt.Errorf("%w; some credentials were not used: %v", withoutURL(err), problem) //nolint:errorlint // callers must not mistake a refusal for a problem with a file
	}
	return err
}

// refusals returns the status codes with which registries refuse a request without sufficient credentials. They include
// 404, because some registries do not disclose that the image exists.
func refusals() []int {
	return []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}
}

// Image is an image whose manifest has been read.
type Image struct {
	// Repository is the repository that the image's name contains, even if a mirror was used.
	Repository string
	// Digest is the digest of Manifest. Named is the digest that the name resolves to, which can be the digest of an
	// index.
	Digest, Named v1.Hash
	Manifest      *v1.Manifest

	client *Client
	at     name.Repository
	access Access
}

// Open reads the manifest of an image. If the name refers to an index, it reads the manifest of one of the index's
// images (see choose).
func (c *Client) Open(ctx context.Context, text string, access Access) (*Image, error) {
	ref, err := Reference(text)
	if err != nil {
		return nil, err
	}
	return first(c, ref, func(at name.Reference) (*Image, error) {
		image := &Image{Repository: ref.Context().Name(), client: c, at: at.Context(), access: access}
		return image, access.explain(image.open(at, c.options(ctx, at.Context(), access)))
	})
}

// Digest returns the digest that an image's name currently resolves to, without reading the manifest.
func (c *Client) Digest(ctx context.Context, text string, access Access) (v1.Hash, error) {
	ref, err := Reference(text)
	if err != nil {
		return v1.Hash{}, err
	}
	return first(c, ref, func(at name.Reference) (v1.Hash, error) {
		desc, err := remote.Head(at, c.options(ctx, at.Context(), access)...)
		if err != nil {
			return v1.Hash{}, access.explain(err)
		}
		return desc.Digest, nil
	})
}

// first tries the locations of an image in order and returns the first successful result. An ErrImage means that the
// image was found, so the remaining locations are not tried.
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

// withoutURL removes the URL from an error, because a registry may have redirected the request to a signed URL, which
// is a credential.
func withoutURL(err error) error {
	if at, ok := err.(*url.Error); ok { //nolint:errorlint // only the outermost error contains the redirected URL
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
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain), remote.WithTransport(through.forRegistry(at.RegistryStr()))}
}

// open reads the manifest of an image. If the name refers to an index, it reads the manifest of one of the index's
// images.
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
		return Refuse("the image's manifest has type %q, which is not an image type", desc.MediaType)
	}
	image, err := desc.Image()
	if err != nil {
		return err
	}
	if i.Manifest, err = image.Manifest(); err != nil {
		return Refuse("parse the image's manifest: %w", err)
	}
	i.Digest = desc.Digest
	return nil
}

// choose returns the digest of the image for linux/amd64 or, if there is none, of the first image in the index. The
// content that Remit reads is the same on all platforms.
func choose(desc *remote.Descriptor) (v1.Hash, error) {
	index, err := desc.ImageIndex()
	if err != nil {
		return v1.Hash{}, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return v1.Hash{}, Refuse("parse the image's index: %w", err)
	}
	if len(manifest.Manifests) > MaxImages {
		return v1.Hash{}, Refuse("the image's index has more than %d images", MaxImages)
	}
	var first *v1.Descriptor
	for i, d := range manifest.Manifests {
		if !d.MediaType.IsImage() || len(d.URLs) > 0 {
			continue // for example, a nested index
		}
		if d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == "amd64" {
			return d.Digest, nil
		}
		if first == nil {
			first = &manifest.Manifests[i]
		}
	}
	if first == nil {
		return v1.Hash{}, Refuse("the image's index contains no image")
	}
	return first.Digest, nil
}
