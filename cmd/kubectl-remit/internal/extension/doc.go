// Package extension determines what a ClusterExtension would install, for the commands that check it: from an object in the
// cluster, a manifest or flags, and from the ClusterCatalogs of the cluster or another catalog. It writes nothing.
//
//	object.go -> catalogs.go, cluster.go -> resolve.Resolve -> install.go: bundle -> render.Render -> steps
package extension
