package fbc

import (
	"context"
	"fmt"
	"slices"

	"github.com/remit-olm/remit/pkg/catalog"
)

// contents are the inline manifests of a catalog. They are read only once the catalog is built.
type contents map[bundleKey]*catalog.Content

var _ catalog.ContentReader = contents(nil)

// Content returns the manifests of a bundle, whatever the channel. The bytes are shared: callers
// must not change them.
func (c contents) Content(_ context.Context, pkg, _, bundle string) (*catalog.Content, error) {
	content, ok := c[bundleKey{pkg, bundle}]
	if !ok {
		return nil, fmt.Errorf("package %q, bundle %q: %w", pkg, bundle, catalog.ErrNoContent)
	}
	return &catalog.Content{Manifests: slices.Clone(content.Manifests)}, nil
}

func (c contents) digest(pkg, bundle string) string {
	if content, ok := c[bundleKey{pkg, bundle}]; ok {
		return content.Digest()
	}
	return ""
}
