package grpc

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/operator-framework/operator-registry/pkg/api"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Reader reads manifests from a registry on demand.
type Reader struct{ Client RegistryClient }

var _ catalog.ContentReader = &Reader{}

// Content implements catalog.ContentReader. For a bundle with an image, it returns ErrNoContent even if the registry
// sends a CSV: registries generate such a CSV from the image's metadata, without deployments.
func (r *Reader) Content(ctx context.Context, pkg, channel, bundle string) (*catalog.Content, error) {
	b, err := r.Client.GetBundle(ctx, pkg, channel, bundle)
	if err != nil {
		return nil, fmt.Errorf("package %q, bundle %q: %w", pkg, bundle, err)
	}
	if b.GetPackageName() != pkg || b.GetCsvName() != bundle {
		return nil, fmt.Errorf("package %q, bundle %q: the registry returned package %q, bundle %q",
			pkg, bundle, clip(b.GetPackageName()), clip(b.GetCsvName()))
	}
	content, err := contentOf(b)
	if err != nil {
		return nil, fmt.Errorf("package %q, bundle %q: %w", pkg, bundle, err)
	}
	return content, nil
}

func contentOf(b *api.Bundle) (*catalog.Content, error) {
	objects := b.GetObject()
	if len(objects) == 0 && b.GetCsvJson() != "" {
		objects = []string{b.GetCsvJson()}
	}
	if b.GetBundlePath() != "" || len(objects) == 0 {
		return nil, catalog.ErrNoContent
	}
	if len(objects) > catalog.MaxManifests {
		return nil, fmt.Errorf("the registry sent more than %d manifests", catalog.MaxManifests)
	}
	out := &catalog.Content{Manifests: make([][]byte, 0, len(objects))}
	size := 0
	for i, o := range objects {
		if size += len(o); size > catalog.MaxContentBytes {
			return nil, fmt.Errorf("the bundle's manifests are larger than %d bytes in total", catalog.MaxContentBytes)
		}
		if !utf8.ValidString(o) {
			return nil, fmt.Errorf("manifest %d is not valid UTF-8", i+1)
		}
		out.Manifests = append(out.Manifests, []byte(o))
	}
	return out, nil
}

var _ catalog.DisplayReader = &Reader{}

// PackageDisplay implements catalog.DisplayReader. Registries send icons only in ClusterServiceVersions.
func (*Reader) PackageDisplay(context.Context, string) ([]byte, error) { return nil, nil }

// BundleDisplay implements catalog.DisplayReader. Registries also generate a ClusterServiceVersion for bundles in images.
func (r *Reader) BundleDisplay(ctx context.Context, pkg, channel, bundle string) ([]byte, error) {
	b, err := r.Client.GetBundle(ctx, pkg, channel, bundle)
	if err != nil {
		return nil, fmt.Errorf("package %q, bundle %q: %w", pkg, bundle, err)
	}
	if b.GetPackageName() != pkg || b.GetCsvName() != bundle || len(b.GetCsvJson()) > catalog.MaxDisplayBytes {
		return nil, nil
	}
	return []byte(b.GetCsvJson()), nil
}
