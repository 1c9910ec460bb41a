package catalog

import (
	"slices"

	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/remit-olm/remit/pkg/catalog/versions"
)

// Estimated memory, in bytes, of the parts of a Snapshot and of the resolver's index of it, in addition to their text: headers, map
// entries, and what the index contains for each part. They are upper bounds, which matter for hostile catalogs: in ordinary ones,
// most of the memory is the text of properties.
const (
	PackageOverhead  = 768
	ChannelOverhead  = 1024
	BundleOverhead   = 576
	EntryOverhead    = 224
	PropertyOverhead = 64
	// kindOverhead is the memory of a kind that a bundle owns: the index contains it, and who owns it.
	kindOverhead = 256
	// versionBytes is the memory that a parsed version needs for each byte of its text: 32 bytes for each part of a pre-release, which can
	// be as short as ".a".
	versionBytes = 16
)

// Size estimates the memory of a Snapshot and of its index, in bytes, excluding manifests that its Reader may keep in memory. What a
// resolution needs in addition is limited separately (pkg/resolver).
func (s *Snapshot) Size() int64 {
	size := int64(0)
	for _, p := range s.Packages {
		size += p.Size()
	}
	for _, text := range slices.Concat(s.Excluded, s.Warnings) {
		size += int64(PropertyOverhead + len(text))
	}
	return size
}

// Size estimates the memory of a Package and of its index, in bytes.
func (p *Package) Size() int64 {
	size := PackageOverhead + len(p.Name) + len(p.Deprecation)
	for name, c := range p.Channels {
		size += ChannelOverhead + len(name) + len(c.Deprecation)
		for _, e := range c.Entries {
			size += int(e.Size())
		}
	}
	for _, b := range p.Bundles {
		size += int(b.Size())
	}
	return int64(size)
}

// Size estimates the memory of an Entry, in bytes.
func (e Entry) Size() int64 {
	size := EntryOverhead + len(e.Name) + len(e.Replaces) + len(e.SkipRange)
	for _, skipped := range e.Skips {
		size += PropertyOverhead + len(skipped)
	}
	return int64(size)
}

// Size estimates the memory of a Bundle, in bytes.
func (b *Bundle) Size() int64 {
	size := BundleOverhead + len(b.Name) + len(b.Version) + versionBytes*min(len(b.Version), versions.MaxVersion) + len(b.Image) + len(b.Deprecation)
	for _, p := range b.Properties {
		size += PropertyOverhead + len(p.Type) + len(p.Value)
		if p.Type == property.TypeGVK {
			size += kindOverhead + len(p.Value)
		}
	}
	return int64(size)
}
