package catalog

// Estimated memory, in bytes, of the parts of a Snapshot in addition to their text: headers, map entries and resolution
// indexes.
const (
	BundleOverhead   = 512
	EntryOverhead    = 128
	PropertyOverhead = 64
)

// Size estimates the memory of a Snapshot, in bytes, excluding manifests that its Reader may keep in memory.
func (s *Snapshot) Size() int64 {
	size := 0
	for name, p := range s.Packages {
		size += BundleOverhead + len(name) + len(p.Deprecation)
		for name, c := range p.Channels {
			size += EntryOverhead + len(name) + len(c.Deprecation)
			for _, e := range c.Entries {
				size += int(e.Size())
			}
		}
		for _, b := range p.Bundles {
			size += int(b.Size())
		}
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
	size := BundleOverhead + len(b.Name) + len(b.Version) + len(b.Image) + len(b.Deprecation)
	for _, property := range b.Properties {
		size += PropertyOverhead + len(property.Type) + len(property.Value)
	}
	return int64(size)
}
