package image

import "time"

// Limits on a registry's answers.
const (
	// MaxManifestBytes is the largest manifest of an image, or index of images, and the largest answer of any
	// other kind but a blob.
	MaxManifestBytes = 1 << 20
	// MaxConfigBytes is the largest configuration of an image.
	MaxConfigBytes = 1 << 20
	// MaxImages is the greatest number of images in an index.
	MaxImages = 100
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
