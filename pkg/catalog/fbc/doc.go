// Package fbc loads file-based catalogs: from a directory, from files in memory, or from a declarative config. The
// result is a catalog.Snapshot whose Reader returns the manifests that the catalog contains (olm.bundle.object). A
// bundle that is referenced only by its image has no content in the Snapshot (catalog.ErrNoContent).
//
// Catalogs are untrusted input: sizes and counts are limited (see the constants of package catalog), and malformed content is
// refused with the name of the file, package, channel or bundle.
//
// FromBundles converts bundle directories, as authors publish them, to a declarative config, so that a directory of
// bundles can be served without building a catalog first.
//
// The catalogsource controller calls LoadDirectory, and pkg/catalog/pull calls Load; the configmap package calls FromConfig
// and FromFiles.
package fbc
