package unpack

// Limits on an image. They are far above what operators publish: of 132 real bundles the largest has 4 MiB of
// manifests, 104 of them, in a handful of layers.
const (
	// MaxLayers is the greatest number of layers.
	MaxLayers = 100
	// MaxCompressedBytes is the largest sum of all layers as they are sent. They are held in memory.
	MaxCompressedBytes = 32 << 20
	// MaxUnpackedBytes is the largest sum of all layers uncompressed, what is passed over included.
	MaxUnpackedBytes = 128 << 20
	// MaxEntries is the greatest number of entries in all archives.
	MaxEntries = 10_000
	// MaxFiles and MaxFileBytes bound what is kept.
	MaxFiles = 1_100
	// MaxFileBytes is the largest sum of all files kept.
	MaxFileBytes = 33 << 20
)
