// Package manifest reads what a bundle's manifests say about the bundle: its name, version and
// upgrade edges, and the properties (olm.package, olm.gvk, olm.gvk.required) that a catalog states
// for it. It is for loaders that start from manifests (bundle directories, legacy ConfigMaps);
// turning manifests into objects to install is pkg/bundle's work.
package manifest
