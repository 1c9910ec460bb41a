// Package extension tests ClusterCatalogs and ClusterExtensions with cmd/extension, on a separate cluster.
package extension
