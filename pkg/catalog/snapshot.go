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

// Snapshot is the content of a catalog at one point in time. It is immutable once published. Two Snapshots of a catalog with the
// same Digest have the same content.
type Snapshot struct {
	// Key names the CatalogSource or, without a namespace, the ClusterCatalog.
	Key types.NamespacedName
	// Digest is the digest of the content, as "sha256:<hex>".
	Digest string
	// Priority orders catalogs during resolution, highest first (spec.priority).
	Priority int
	// Packages contains the packages by name.
	Packages map[string]*Package
	// Reader fetches the manifests of one bundle. It is nil in a Snapshot that is used only for searching.
	Reader ContentReader
	// Displays reads the display-only data; nil means that there is none.
	Displays DisplayReader
	// IsUnreachable reports that the catalog has no address now, so the manifests that only it contains cannot be read.
	IsUnreachable bool
	// Warnings describe files that could not be read, and packages that are therefore not included. They are not part of
	// the digest.
	Warnings []string
	// Excluded contains, in order, the names of the packages that are not included because their objects are invalid, at most
	// MaxExcluded of them; MoreExcluded is the number of the others. Both are empty if a file could not be read, because it is then
	// unknown which packages are affected.
	Excluded     []string
	MoreExcluded int
}

// IsMissingPackagesOf reports whether the Snapshot has warnings and is missing a package of the other Snapshot that is not
// known to be invalid. It returns false if other is nil. Packages that only MoreExcluded counts are not known to be invalid.
func (s *Snapshot) IsMissingPackagesOf(other *Snapshot) bool {
	if other == nil || len(s.Warnings) == 0 {
		return false
	}
	for name := range other.Packages {
		if _, ok := s.Packages[name]; ok {
			continue
		}
		if _, invalid := slices.BinarySearch(s.Excluded, name); !invalid {
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
	// Deprecation is the author's message if the package is deprecated.
	Deprecation string
}

// Channel is an upgrade graph: entries by bundle name.
type Channel struct {
	Name    string
	Entries map[string]Entry
	// Deprecation is the author's message if the channel is deprecated.
	Deprecation string
}

// Entry is a node of a channel and its incoming edges (file-based catalog schema olm.channel).
type Entry struct {
	Name      string
	Replaces  string
	Skips     []string
	SkipRange string
}

// Bundle is the metadata of one bundle in a catalog, without its manifests.
type Bundle struct {
	// Name is the name of the bundle's ClusterServiceVersion.
	Name    string
	Package string
	// Version is the semantic version in the bundle's olm.package property, or "".
	Version string
	// Image is the bundle image reference; "" if the catalog contains the manifests.
	Image      string
	Properties []Property
	// Deprecation is the author's message if the bundle is deprecated.
	Deprecation string
}

// Property is a type and a JSON value (file-based catalog "properties").
type Property struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// ContentReader reads a bundle's manifests from the catalog's storage.
type ContentReader interface {
	// Content returns the manifests of one bundle, or ErrNoContent if the catalog contains only an image reference.
	Content(ctx context.Context, pkg, channel, bundle string) (*Content, error)
}

// Content contains a bundle's manifests as the bundle's author published them.
type Content struct {
	// Manifests are single objects in JSON or YAML; the ClusterServiceVersion is one of them.
	Manifests [][]byte
	// Names lists the files that contain the manifests, for use in messages. It is empty if unknown, and is not part of the
	// digest.
	Names []string
	// Warnings describe what ReadObjects found in the bundle's files. They are not part of the digest.
	Warnings []string
}

// MaxContentWarnings bounds the number of warnings about the files of one bundle.
const MaxContentWarnings = 100

// Warn adds a warning about a file. Further warnings are dropped.
func (c *Content) Warn(file, warning string) {
	if len(c.Warnings) < MaxContentWarnings {
		c.Warnings = append(c.Warnings, fmt.Sprintf("manifest %q: %s", file, warning))
	}
}

// Name returns the name of the file that contains a manifest, or "" if unknown.
func (c *Content) Name(manifest int) string {
	if len(c.Names) != len(c.Manifests) {
		return ""
	}
	return c.Names[manifest]
}

// Digest returns the digest, as "sha256:<hex>", of the manifests in order, each preceded by its length.
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

// Head returns the newest version: the entry that no other entry replaces or skips. It fails if there is none (a cycle) or
// more than one.
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
