// Package manifest derives information about a bundle from its manifests: its name, version and upgrade edges, and the
// properties (olm.package, olm.gvk, olm.gvk.required) that a catalog lists for it. Loaders that start from manifests use it
// (bundle directories, legacy ConfigMaps). Package bundle turns manifests into objects to install.
package manifest
