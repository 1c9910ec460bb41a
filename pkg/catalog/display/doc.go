// Package display reads the display-only data of a catalog: the icons of packages and the descriptions of the newest bundle in
// each of their channels. While a catalog is loaded, a Recorder writes them to a file; only their positions are in memory. If a
// catalog contains ClusterServiceVersions, these are used as descriptions, because they are already stored.
//
// The catalog controllers use this package, directly and through pkg/catalog/pull; pkg/packages reads the descriptions.
package display
