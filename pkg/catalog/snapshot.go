package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Snapshot is one catalog's content at one moment. It is never changed after it was published:
// two Snapshots of one CatalogSource with the same Digest have the same content.
type Snapshot struct {
	// Key names the CatalogSource.
	Key types.NamespacedName
	// Digest is "sha256:<hex>" over the content.
	Digest string
	// Priority orders catalogs in resolution; higher is preferred (CatalogSource spec.priority).
	Priority int
	// Packages by name.
	Packages map[string]*Package
	// Reader fetches the manifests of one bundle. It is nil in a Snapshot made only to be searched.
	Reader ContentReader
	// Warnings say which files of the catalog could not be read, and which packages are not offered for that. They are
	// no part of the digest.
	Warnings []string
}

// Lacks says whether the Snapshot has warnings and not every package of another.
func (s *Snapshot) Lacks(other *Snapshot) bool {
	if other == nil || len(s.Warnings) == 0 {
		return false
	}
	for name := range other.Packages {
		if _, ok := s.Packages[name]; !ok {
			return true
		}
	}
	return false
}

// Package is one olm.package with its channels and bundles.
type Package struct {
	Name           string
	DefaultChannel string
	Channels       map[string]*Channel
	Bundles        map[string]*Bundle
	// Deprecation is the author's message where the package is deprecated, else "".
	Deprecation string
}

// Channel is an upgrade graph: its entries by bundle name.
type Channel struct {
	Name    string
	Entries map[string]Entry
	// Deprecation is the author's message where the channel is deprecated, else "".
	Deprecation string
}

// Entry is a node of a channel with its incoming edges (file-based catalog schema olm.channel).
type Entry struct {
	Name      string
	Replaces  string
	Skips     []string
	SkipRange string
}

// Bundle is what a catalog says of one version without its manifests.
type Bundle struct {
	// Name is the name of the bundle's ClusterServiceVersion.
	Name    string
	Package string
	// Version is the value of its olm.package property, a semantic version; "" where it has none.
	Version string
	// Image is the bundle image reference; "" where the catalog carries the manifests inline.
	Image      string
	Properties []Property
	// Deprecation is the author's message where the bundle is deprecated, else "".
	Deprecation string
}

// Property is a type and a JSON value (file-based catalog "properties").
type Property struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// ContentReader reads a bundle's manifests from where the catalog keeps them.
type ContentReader interface {
	// Content returns the manifests of one bundle. It returns ErrNoContent where the catalog
	// names only an image.
	Content(ctx context.Context, pkg, channel, bundle string) (*Content, error)
}

// Content is a bundle's manifests as its author published them.
type Content struct {
	// Manifests are single objects, JSON or YAML; the ClusterServiceVersion is one of them.
	Manifests [][]byte
	// Names are the files that the manifests are from, for messages; empty where nobody knows. They are no part of
	// the digest.
	Names []string
}

// Name is the file that a manifest is from, "" where nobody knows.
func (c *Content) Name(manifest int) string {
	if len(c.Names) != len(c.Manifests) {
		return ""
	}
	return c.Names[manifest]
}

// Digest is "sha256:<hex>" over the manifests in order, each preceded by its length.
func (c *Content) Digest() string {
	h := sha256.New()
	for _, m := range c.Manifests {
		fmt.Fprintf(h, "%d\n", len(m))
		h.Write(m)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// PackageNames returns the names of all packages, sorted.
func (s *Snapshot) PackageNames() []string {
	return slices.Sorted(maps.Keys(s.Packages))
}

// ChannelNames returns the names of the package's channels, sorted.
func (p *Package) ChannelNames() []string {
	return slices.Sorted(maps.Keys(p.Channels))
}

// Head returns the entry of the channel that no other entry replaces or skips: the newest version.
// It fails where there is none (a cycle) or more than one.
func (c *Channel) Head() (Entry, error) {
	heads := c.heads()
	switch len(heads) {
	case 0:
		return Entry{}, fmt.Errorf("channel %q has no head: its entries replace each other in a cycle", c.Name)
	case 1:
		return c.Entries[heads[0]], nil
	default:
		const shown = 3
		return Entry{}, fmt.Errorf("channel %q has %d heads: %q", c.Name, len(heads), heads[:min(len(heads), shown)])
	}
}

func (c *Channel) heads() []string {
	superseded := map[string]bool{}
	for name, e := range c.Entries {
		for _, older := range append([]string{e.Replaces}, e.Skips...) {
			if older != name {
				superseded[older] = true
			}
		}
	}
	var heads []string
	for name := range c.Entries {
		if !superseded[name] {
			heads = append(heads, name)
		}
	}
	slices.Sort(heads)
	return heads
}
