// Package existing holds the objects that exist of a CustomResourceDefinition against the schema that it is to
// have, as the API server will hold them when they are written next: pruned, with defaults, by the schema, by the
// kinds of its lists and by its rules.
//
//	New(live, want, version) -> Read(client) -> Result.Err
//
// It reads page by page with a client that the caller gives it, keeps of each page only what is to be told, and
// tells no values, and of objects that are not the caller's to tell of only their number.
package existing
