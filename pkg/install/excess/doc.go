// Package excess determines which roles and bindings of an install its account would not be allowed to write any more,
// and when they are removed (docs/adr/0071). The controllers of ClusterServiceVersions and ClusterExtensions use it.
//
// Find evaluates live objects, never what a status says about them. An install is reported as soon as it exceeds its
// account. After the grace period, Confirm asks the API server itself, so that an outdated cache removes nothing.
// Deleting the objects is up to the caller, which also proves that the install created them.
package excess
