// Package names defines every label, annotation, finalizer, field manager and well-known name that Remit writes or
// reads. Keys under olm.* and operators.coreos.com are known to users and tools of OLM v0 and must not change; keys
// under remit.dev are Remit's own.
//
// It imports nothing, and every layer can import it.
package names
