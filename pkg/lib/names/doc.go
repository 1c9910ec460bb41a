// Package names defines every label, annotation, finalizer, field manager and well-known name that Remit writes or
// reads. Keys under olm.* and operators.coreos.com are used by users and tools of OLM v0 and must not change; keys
// under remit.dev are Remit's own.
//
// The package imports no other packages, so that all packages can import it.
package names
