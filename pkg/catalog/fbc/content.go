package fbc

import (
	"context"
	"fmt"
	"slices"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Contents is where a loader leaves the manifests that a catalog carries, and becomes the Reader of its Snapshot.
// Put may be called from several goroutines.
type Contents interface {
	catalog.ContentReader
	Put(pkg, bundle string, content *catalog.Content) error
	// Digest is that of a bundle's manifests, "" where there are none.
	Digest(pkg, bundle string) string
}

// memory holds them as they are. The builder's lock is held where it is filled.
type memory map[bundleKey]*catalog.Content

var _ Contents = memory(nil)

// Put implements Contents.
func (c memory) Put(pkg, bundle string, content *catalog.Content) error {
	c[bundleKey{pkg, bundle}] = content
	return nil
}

// Content returns the manifests of a bundle, whatever the channel. The bytes are shared: callers
// must not change them.
func (c memory) Content(_ context.Context, pkg, _, bundle string) (*catalog.Content, error) {
	content, ok := c[bundleKey{pkg, bundle}]
	if !ok {
		return nil, fmt.Errorf("package %q, bundle %q: %w", pkg, bundle, catalog.ErrNoContent)
	}
	return &catalog.Content{Manifests: slices.Clone(content.Manifests), Names: slices.Clone(content.Names)}, nil
}

// Digest implements Contents.
func (c memory) Digest(pkg, bundle string) string {
	if content, ok := c[bundleKey{pkg, bundle}]; ok {
		return content.Digest()
	}
	return ""
}
