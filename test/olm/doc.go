// Package olm tests cmd/olm on a cluster of its own without cmd/catalog: ClusterServiceVersions are
// made by hand, and every phase is seen by itself.
package olm
