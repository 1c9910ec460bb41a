// Package existing validates the existing objects of a CustomResourceDefinition against its new schema, as the API
// server will do on their next write: after pruning and defaulting, against the schema, list types and rules.
//
//	New(live, want, version) -> Read(client) -> Result.Err
//
// It reads objects page by page with the caller's client and keeps only what it reports. It reports no values, and only
// the number of those objects that must not be named to the reader.
package existing
