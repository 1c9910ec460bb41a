// Package layer reads the file-based catalog in an image: which folder it is in, and the files below that
// folder, written to a directory as the layers are sent. Nothing of an image is held in memory, and nothing
// but those files is kept.
//
// An image is a stranger's: what it may cost is bounded (see the limits), and what has no place in a catalog's
// folder is refused. The files count only once every layer was held against its digest.
//
// The catalogsource controller calls it; what the files mean is for pkg/catalog/fbc.
package layer
