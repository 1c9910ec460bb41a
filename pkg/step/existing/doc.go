// Package existing validates the existing objects of a CustomResourceDefinition against its new schema, as the API
// server will do on their next write: after pruning and defaulting, against the schema, list types and rules.
//
//	New(live, want, version) -> Read(client) -> Result.Err
//
// It reads objects page by page with the caller's client and retains only the violations. Its errors contain no field
// values. Objects in namespaces that MayName rejects are counted but not named.
package existing
