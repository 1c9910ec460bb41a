// Package extension tests ClusterCatalogs and ClusterExtensions through cmd/extension, on its own cluster.
package extension
