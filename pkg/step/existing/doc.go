// Package existing validates the existing objects of a CustomResourceDefinition against its new schema, as the API
// server will do on their next write: after pruning and defaulting, against the schema, list types and rules.
//
//	Read(client, live, want, version) -> Result.Err
//
// It reads objects page by page with the caller's client, and retains only the violations. A separate process with limited memory
// and time validates them, because schemas and objects are untrusted input. Its errors contain no field
// values. Objects in namespaces that MayName rejects are counted but not named.
package existing
