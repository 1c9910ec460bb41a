// Package unpack reads the bundle in an image into memory: only the files below manifests/ and metadata/. Images are
// untrusted input: the cost of reading them is limited (see MaxLayers and the other limits), and unexpected entries in
// a bundle are refused (escape suite 112, 113, 115).
//
// This package handles layers and archives, package image handles registries, and pkg/bundle and pkg/catalog interpret
// the files. The command line uses this package, and so does pkg/controller/kit/bundleimage for bundles that a catalog
// references by image.
package unpack
