// Package unpack reads the bundle in an image, in process and in memory: the files below manifests/ and
// metadata/ and nothing else. An image is a stranger's: what it may cost is bounded (see the limits), and
// what has no place in a bundle is refused, not worked around (escape suite 112, 113, 115).
//
// It knows layers and archives; registries are for pkg/image, and what the files mean for pkg/bundle and
// pkg/catalog. The command line uses it, and the catalogsource controller for bundles that a catalog names by
// image.
package unpack
