// Package fbc loads file-based catalogs in process: from a directory, from single files that a
// caller has at hand, or from a declarative config in memory. The result is a catalog.Snapshot whose
// Reader returns the manifests that the catalog carries inline (olm.bundle.object). A bundle that
// is only named by its image has no content here (catalog.ErrNoContent).
//
// A catalog is hostile bytes: sizes and counts are bounded (the constants of package catalog), and
// what is malformed is refused with the name of the file, package, channel or bundle.
//
// FromBundles goes the other way round, from bundle directories as authors publish them to a
// declarative config, so that a folder of bundles can be served without building a catalog first.
//
// The catalogsource controller calls Load; the configmap package calls FromConfig and FromFiles.
package fbc
