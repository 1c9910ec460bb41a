// Package grpc is the client of registries that serve catalogs over gRPC (the Registry service of operator-registry). It
// validates addresses, connects, builds a Snapshot from the stream of bundles, and reads the manifests of single bundles
// on demand.
//
// Registries are not trusted: time, count and size of what they send are limited, and names are validated. The package
// neither watches connections nor retries; the catalogsource controller does.
package grpc
