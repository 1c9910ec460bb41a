// Package resolve selects the bundle that a ClusterExtension installs. [Resolve] is a pure function of the contents of the
// ClusterCatalogs, the request and the installed bundle.
//
// # Which bundle is selected
//
//	catalogs   those that the selector matches and that have the package
//	channels   bundles in the requested channels, or in all channels if none is requested
//	versions   bundles in the requested version range
//	upgrades   with CatalogProvided, only the installed bundle and those that replace or skip it, or whose skipRange
//	           contains its version; with SelfCertified, any bundle
//	priority   among the catalogs with such bundles, the one with the highest priority; if there are several, the request
//	           is refused
//	order      bundles that are not deprecated first, then those in a channel that is not deprecated, then by version
//
// A deprecation never causes a downgrade: if a bundle of at least the installed version qualifies, older ones do not.
//
// # When a catalog is missing
//
// If no catalog provides the package any longer, the installed version is kept, unless it is outside the requested range.
// While the content of a catalog is not available, no bundle is selected from a catalog with a lower priority.
package resolve
