package fbc

import (
	"context"
	"fmt"
	"slices"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Contents stores the manifests of a catalog during the load and becomes the Reader of its Snapshot. Put may be called
// concurrently.
type Contents interface {
	catalog.ContentReader
	Put(pkg, bundle string, content *catalog.Content) error
	// Digest returns the digest of a bundle's manifests, or "" if there are none.
	Digest(pkg, bundle string) string
}

// memory stores manifests in memory. The builder's lock protects Put.
type memory map[bundleKey]*catalog.Content

var _ Contents = memory(nil)

// Put implements Contents.
func (c memory) Put(pkg, bundle string, content *catalog.Content) error {
	c[bundleKey{pkg, bundle}] = content
	return nil
}

// Content returns the manifests of a bundle, regardless of the channel. The bytes are shared; callers must not modify them.
func (c memory) Content(_ context.Context, pkg, _, bundle string) (*catalog.Content, error) {
	content, ok := c[bundleKey{pkg, bundle}]
	if !ok {
		return nil, fmt.Errorf("package %q, bundle %q: %w", pkg, bundle, catalog.ErrNoContent)
	}
	return &catalog.Content{Manifests: slices.Clone(content.Manifests), Names: slices.Clone(content.Names), Warnings: slices.Clone(content.Warnings)}, nil
}

// Digest implements Contents.
func (c memory) Digest(pkg, bundle string) string {
	if content, ok := c[bundleKey{pkg, bundle}]; ok {
		return content.Digest()
	}
	return ""
}
