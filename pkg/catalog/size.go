package catalog

// What the parts of a Snapshot take in memory beside their texts: headers, map entries, what resolution makes of them.
const (
	BundleOverhead   = 512
	EntryOverhead    = 128
	PropertyOverhead = 64
)

// Size is about how many bytes a Snapshot takes in memory, the manifests that its Reader may keep there aside.
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

// Size is about how many bytes an Entry takes in memory.
func (e Entry) Size() int64 {
	size := EntryOverhead + len(e.Name) + len(e.Replaces) + len(e.SkipRange)
	for _, skipped := range e.Skips {
		size += PropertyOverhead + len(skipped)
	}
	return int64(size)
}

// Size is about how many bytes a Bundle takes in memory.
func (b *Bundle) Size() int64 {
	size := BundleOverhead + len(b.Name) + len(b.Version) + len(b.Image) + len(b.Deprecation)
	for _, property := range b.Properties {
		size += PropertyOverhead + len(property.Type) + len(property.Value)
	}
	return int64(size)
}
