// Package layer reads the file-based catalog in an image. It finds the catalog's directory and writes the files in it
// to a local directory while the layers are streamed. Image data is not buffered in memory, and other files are not
// stored.
//
// Images are untrusted input: the cost of reading them is limited (see MaxLayers and the other limits), and unexpected file
// types in the catalog's directory are refused. The files are valid only after the digest of every layer has been verified.
//
// pkg/catalog/pull uses this package; pkg/catalog/fbc interprets the files.
package layer
