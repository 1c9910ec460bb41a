package unpack

// Limits for a bundle image. They are far above what published bundles need: the largest of 132 bundles has 4
// MiB of manifests in 104 files and a few layers.
const (
	// MaxLayers bounds the number of layers.
	MaxLayers = 100
	// MaxCompressedBytes bounds the total compressed size of the layers, which are in a temporary file.
	MaxCompressedBytes = 32 << 20
	// MaxUnpackedBytes bounds the total uncompressed size of the layers, including ignored entries.
	MaxUnpackedBytes = 128 << 20
	// MaxEntries bounds the number of entries in all archives.
	MaxEntries = 10_000
	// MaxFiles bounds the number of files that are kept.
	MaxFiles = 1_100
	// MaxFileBytes bounds the total size of the files that are kept.
	MaxFileBytes = 33 << 20
)
