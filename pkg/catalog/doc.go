// Package catalog defines the content of catalogs as immutable values, which the resolver reads without locks, and the
// Store in which the catalogsource controller publishes them.
//
// The packages below it (fbc, configmap, grpc) load catalogs; this package does no I/O.
package catalog
