package catalog

// What the parts of a Snapshot take in memory beside their texts: headers, map entries, what resolution makes of them.
const (
	bundleOverhead   = 512
	entryOverhead    = 128
	propertyOverhead = 64
)

// Size is about how many bytes a Snapshot takes in memory, the manifests that its Reader may keep there aside.
func (s *Snapshot) Size() int64 {
	size := 0
	for name, p := range s.Packages {
		size += bundleOverhead + len(name) + len(p.Deprecation)
		for name, c := range p.Channels {
			size += entryOverhead + len(name) + len(c.Deprecation)
			for _, e := range c.Entries {
				size += entryOverhead + len(e.Name) + len(e.Replaces) + len(e.SkipRange)
				for _, skipped := range e.Skips {
					size += propertyOverhead + len(skipped)
				}
			}
		}
		for _, b := range p.Bundles {
			size += bundleOverhead + len(b.Name) + len(b.Image) + len(b.Deprecation)
			for _, property := range b.Properties {
				size += propertyOverhead + len(property.Value)
			}
		}
	}
	return int64(size)
}
