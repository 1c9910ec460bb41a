// Package disk keeps on disk what a catalog must not hold in memory, or should not have to read again: the
// manifests of bundles, and the catalogs that were loaded, for the next start of the program.
//
//	catalogs/<key>.index      packages, channels and bundles, one package a line
//	catalogs/<key>.contents   the manifests that a catalog carries, where the index says
//	bundles/<key>             the manifests of one bundle image
//	work/                     what is being read; emptied at each start
//
// A key is a hash of an image's repository and digest: an image is had from here only by who could read its
// manifest in that very repository. Manifests are held against their digest whenever they are read. Everything
// may be deleted at any time, and the oldest is, beyond a limit: it is read again from where it came.
//
// The catalogsource controller uses it; pkg/catalog/fbc fills it.
package disk
