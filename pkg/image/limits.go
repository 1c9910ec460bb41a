package image

import "time"

// Limits for the responses of a registry and for unpacked layers.
const (
	// MaxManifestBytes bounds the manifest of an image, an index of images, and any other response that is not a blob.
	MaxManifestBytes = 1 << 20
	// MaxConfigBytes bounds the configuration of an image.
	MaxConfigBytes = 1 << 20
	// MaxImages bounds the images in an index.
	MaxImages = 100
	// MaxRatio bounds the compression ratio of a layer, except for the first FreeBytes. Repetitive text such as manifests
	// has a ratio of 10 to 30; the maximum of gzip is 1,032.
	MaxRatio = 200
	// FreeBytes of each layer are not subject to MaxRatio: a nearly empty archive consists mostly of zeros.
	FreeBytes = 1 << 20
	// maxWindow bounds the memory that a zstd layer can request.
	maxWindow = 8 << 20
	// maxErrorBytes bounds what is read of an error response.
	maxErrorBytes = 64 << 10
	// maxErrorCodes bounds the error codes that are reported.
	maxErrorCodes = 4

	// DialTimeout bounds an attempt to connect, including TLS.
	DialTimeout = 10 * time.Second
	// HeaderTimeout bounds the time until a response begins.
	HeaderTimeout = 30 * time.Second
	// StallTimeout bounds a pause within a response.
	StallTimeout = 30 * time.Second
)
