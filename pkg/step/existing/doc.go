// Package existing validates the existing objects of a CustomResourceDefinition with its new schema, as the API
// server will do on their next write: after pruning and defaulting, by the schema, list types and rules.
//
//	New(live, want, version) -> Read(client) -> Result.Err
//
// It reads page by page with the caller's client and keeps only what is reported. It reports no values, and of
// objects that the caller may not report it reports only the number.
package existing
