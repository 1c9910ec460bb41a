// Package disk stores catalog data that should not be in memory or be downloaded again: the manifests of bundles, and
// loaded catalogs for the next start of the program.
//
//	catalogs/<key>.index      packages, channels and bundles, one package per line
//	catalogs/<key>.contents   the manifests of a catalog, at the positions that the index contains
//	bundles/<key>             the manifests of one bundle image
//	work/                     temporary files; emptied at each start
//
// A key is a hash of an image's repository and digest, so that an image is returned only to callers that could read its
// manifest in that repository. The digest of manifests is verified whenever they are read. Everything can be deleted at any
// time, and the oldest files are deleted when a limit is exceeded: they are then downloaded again.
//
// The catalogsource controller uses it; pkg/catalog/fbc fills it.
package disk
