// Package layer reads the file-based catalog in an image. It finds the catalog's folder and writes the files in it to a
// directory while the layers are streamed. Image data is not buffered in memory, and other files are not stored.
//
// Images are untrusted input: their cost is limited (see the limits), and unexpected file types in the catalog's folder are
// refused. The files are valid only after the digest of every layer has been verified.
//
// The catalogsource controller calls it; pkg/catalog/fbc interprets the files.
package layer
