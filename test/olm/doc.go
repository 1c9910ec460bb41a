// Package olm tests cmd/olm on a cluster of its own without cmd/catalog: the tests create ClusterServiceVersions
// themselves, and observe each phase separately.
package olm
