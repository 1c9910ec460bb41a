// Package unpack reads the bundle in an image in memory: only the files below manifests/ and metadata/. Images are untrusted
// input: their cost is limited (see the limits), and unexpected entries in a bundle are refused (escape suite 112, 113, 115).
//
// It handles layers and archives. Package image handles registries, and pkg/bundle and pkg/catalog interpret the files. The
// command line uses it, and so does the catalogsource controller for bundles that a catalog references by image.
package unpack
