// Package unpack reads the bundle in an image, in process and in memory: the files below manifests/ and
// metadata/ and nothing else. An image is a stranger's: what it may cost is bounded (see the limits), and
// what has no place in a bundle is refused, not worked around (escape suite 112, 113, 115).
//
// It knows registries, layers and archives; what the files mean is for pkg/bundle and pkg/catalog. The
// command line uses it.
package unpack
