// Package disk stores catalog data that should not be kept in memory or downloaded again: the manifests of bundles, and
// loaded catalogs for the next start of the program.
//
//	catalogs/<key>.index      packages, channels and bundles, one package per line
//	catalogs/<key>.contents   the manifests of a catalog, at the positions that the index contains
//	catalogs/<key>.lines      the objects of a catalog as JSON lines, if the catalog is served to clients
//	catalogs/<key>.displays   display-only data as JSON lines, if the catalog is listed
//	bundles/<key>             the manifests of one bundle image
//	work/                     temporary files; emptied at each start
//
// A key is a hash of an image's repository and digest, so that data is returned only to callers that could read the
// image's manifest in that repository. The digest of a bundle's manifests is verified whenever they are read. All files
// can be deleted at any time, and the least recently used ones are deleted when a limit is exceeded. Deleted data is
// downloaded again when it is needed.
//
// The catalog controllers use this package through pkg/catalog/pull; pkg/catalog/fbc writes the manifests to it.
package disk
