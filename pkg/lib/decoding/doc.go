// Package decoding keeps an object that cannot be decoded from affecting other objects.
//
// Go types are stricter than the schemas of CustomResourceDefinitions. Some fields have no schema, integers exceed those of the
// Go type, texts have a syntax that only the Go type knows, and the API server accepts a list where a schema has a text with a
// format. A client that lists such an object as a Go type fails to decode the whole list, and a watch ends at its event, so
// that one object of a tenant would stop a program for all (docs/adr/0086). [Tolerant] changes responses before they are
// decoded: it removes the fields of an object that cannot be decoded, and marks the object if its spec is incomplete
// (budget.Refused). Every client that reads the kinds of OLM or of Remit as Go types needs it.
package decoding
