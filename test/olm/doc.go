// Package olm tests cmd/olm on a separate cluster, without cmd/catalog. The tests create ClusterServiceVersions themselves and
// observe each phase separately.
package olm
