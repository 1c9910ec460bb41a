package image

import "time"

// Limits on a registry's answers, and on what they become.
const (
	// MaxManifestBytes is the largest manifest of an image, or index of images, and the largest answer of any
	// other kind but a blob.
	MaxManifestBytes = 1 << 20
	// MaxConfigBytes is the largest configuration of an image.
	MaxConfigBytes = 1 << 20
	// MaxImages is the greatest number of images in an index.
	MaxImages = 100
	// MaxRatio is how many times its size a layer may become. Text as repetitive as manifests are becomes 10 to 30
	// times as large, what gzip can do at most is 1,032. It counts beyond the first FreeBytes of a layer.
	MaxRatio = 200
	// FreeBytes of each layer are not held to MaxRatio: an archive of next to nothing is mostly zeros.
	FreeBytes = 1 << 20
	// maxWindow bounds the memory that a zstd layer may ask for.
	maxWindow = 8 << 20
	// maxErrorBytes bounds what is read of an answer that is an error.
	maxErrorBytes = 64 << 10
	// maxErrorCodes bounds the codes of an error that are passed on.
	maxErrorCodes = 4

	// DialTimeout bounds an attempt to connect, TLS included.
	DialTimeout = 10 * time.Second
	// HeaderTimeout bounds how long a registry may take to begin an answer.
	HeaderTimeout = 30 * time.Second
	// StallTimeout bounds how long it may pause within one.
	StallTimeout = 30 * time.Second
)
