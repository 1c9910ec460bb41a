// Package server defines the objects that run a catalog image that is itself a registry, because it contains no
// file-based catalog: the ServiceAccount, Service and Pod that OLM v0 creates for it. It also determines
// the next step from the existing Pods.
//
// It does no I/O: the catalogsource controller creates the objects and reads the registry through pkg/catalog/grpc.
package server
