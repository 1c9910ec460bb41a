package layer

// Limits on an image with a catalog. Catalogs are built on whole operating systems, all layers of which have
// to be read, since each may change the catalog's folder.
const (
	// MaxLayers is the greatest number of layers.
	MaxLayers = 128
	// MaxCompressedBytes is the largest sum of all layers as they are sent.
	MaxCompressedBytes = 4 << 30
	// MaxUnpackedBytes is the largest sum of all layers uncompressed.
	MaxUnpackedBytes = 16 << 30
	// MaxEntries is the greatest number of entries in all archives.
	MaxEntries = 2_000_000
	// MaxFiles is the greatest number of files in the catalog's folder; catalog.MaxCatalogBytes bounds their size.
	MaxFiles = 100_000
)
