// Package catalog defines the content of catalogs as immutable values, which the resolver reads without locks, and the
// Store in which the catalogsource and clustercatalog controllers publish them.
//
// The subpackages load catalogs (fbc, configmap, grpc, pull), store them on disk and serve them; this package does no I/O.
package catalog
