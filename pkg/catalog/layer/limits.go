package layer

// Limits for an image with a catalog. Catalog images often contain a whole operating system, and all of their layers
// must be read, because each can change the catalog's directory.
const (
	// MaxLayers bounds the number of layers.
	MaxLayers = 128
	// MaxCompressedBytes bounds the total compressed size of the layers.
	MaxCompressedBytes = 4 << 30
	// MaxUnpackedBytes bounds the total uncompressed size of the layers.
	MaxUnpackedBytes = 16 << 30
	// MaxEntries bounds the number of entries in all archives.
	MaxEntries = 2_000_000
	// MaxFiles bounds the number of files in the catalog's directory; catalog.MaxCatalogBytes bounds their size.
	MaxFiles = 100_000
	// MaxDirectories bounds the number of directories in the catalog's directory.
	MaxDirectories = 100_000
	// MaxDepth bounds the directories of a file below the catalog's directory. Removing a directory takes a file descriptor
	// for each level.
	MaxDepth = 64
	// directoryBytes is the space of a directory in common file systems.
	directoryBytes = 4 << 10
	// MaxHiddenBytes bounds the memory for the paths that hide files of lower layers: the catalog's files with their directories, and
	// whiteouts in its directory.
	MaxHiddenBytes = 32 << 20
	// hiddenOverhead is the memory of one such path besides its text, and that of a directory.
	hiddenOverhead = 64
)
