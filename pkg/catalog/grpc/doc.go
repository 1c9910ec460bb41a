// Package grpc is the client of registries that serve catalogs over gRPC (the Registry service of operator-registry). It
// validates addresses, connects, builds a Snapshot from the stream of bundles, and reads the manifests of single bundles
// on demand.
//
// Registries are not trusted: their response times and the number and size of their messages are limited, and names are
// validated. The package neither watches connections nor retries; the catalogsource controller does both.
package grpc
