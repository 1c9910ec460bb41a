// Package grpc is the client of a registry that somebody else serves over gRPC (the Registry service
// of operator-registry): which addresses may be dialled, the connection, a Snapshot from the stream
// of bundles, and the manifests of one bundle on demand.
//
// A registry is hostile: what it streams is bounded in time, count and bytes, and names are checked.
// The package does not watch connections nor retry; the catalogsource controller does.
package grpc
