package image

import "time"

// Limits for the responses of a registry and for unpacked layers.
const (
	// MaxManifestBytes is the maximum size of an image's manifest, an index, or any other response that is not a blob.
	MaxManifestBytes = 1 << 20
	// MaxConfigBytes is the maximum size of an image's configuration.
	MaxConfigBytes = 1 << 20
	// MaxValues is the maximum number of values in a manifest, an index or a configuration, apart from the first of each list and object. An
	// entry of a list takes 136 bytes in memory, but {} only three in the text. An image with 128 layers has less than 2,000.
	MaxValues = 5000
	// MaxImages is the maximum number of images in an index.
	MaxImages = 100
	// MaxRatio is the maximum compression ratio of a layer, not counting FreeBytes. Repetitive text such as manifests
	// has a ratio of 10 to 30; gzip can reach 1,032.
	MaxRatio = 200
	// FreeBytes is the number of uncompressed bytes per layer that are allowed in addition to MaxRatio, because a
	// nearly empty archive consists mostly of zeros.
	FreeBytes = 1 << 20
	// MaxNameBytes is the maximum length of the name and of the link of an entry in a layer: the longest path of Linux. An
	// archive can have names of 1 MiB, which no container runtime could write.
	MaxNameBytes = 4096
	// MaxHeaderBytes bounds what describes one entry of a layer: its header, and the records and long names before it, which take more
	// than ten times as much in memory. Extended attributes of files have at most 64 KiB in Linux.
	MaxHeaderBytes = 128 << 10
	// UnpackMemory is the memory that reading the layers of one image takes: the window of zstd with its other buffers, what describes
	// an entry, and what the registry has sent. What is kept of the entries is not included.
	UnpackMemory = maxWindow + 4<<20
	// maxUnread bounds what a registry can send of a response before it is read.
	maxUnread = 256 << 10
	// maxWindow is the maximum memory that a zstd layer can request for decompression.
	maxWindow = 8 << 20
	// maxErrorBytes is the maximum number of bytes of an error response that are read.
	maxErrorBytes = 64 << 10
	// maxErrorCodes is the maximum number of error codes that are reported.
	maxErrorCodes = 4

	// DialTimeout limits the time to establish a connection, and, separately, the duration of the TLS handshake.
	DialTimeout = 10 * time.Second
	// HeaderTimeout limits the time until a response begins.
	HeaderTimeout = 30 * time.Second
	// StallTimeout limits the pauses within a response.
	StallTimeout = 30 * time.Second
)
