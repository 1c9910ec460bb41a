// Package names holds every label, annotation, finalizer, field manager and well-known name that
// Remit writes or reads, in one place. Keys under olm.* and operators.coreos.com are the ones that
// users and tools know from OLM v0 and must not change; keys under remit.dev are Remit's own.
//
// It imports nothing and is imported by every other layer.
package names
