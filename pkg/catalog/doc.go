// Package catalog is the content model: what a catalog offers, as immutable values that the
// resolver reads without locks, and the Store in which the catalogsource controller publishes them.
//
// Loading lives in the packages below it (fbc, configmap, grpc); nothing here does I/O.
package catalog
