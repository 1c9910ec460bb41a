// Package server says what runs a catalog image that is a registry itself, because it carries no file-based catalog: the
// ServiceAccount, Service and Pod that OLM v0 makes for it (contract 1.1), and what the Pods that are there call for next.
//
// It is pure. Content is never read through it: the catalogsource controller makes the objects, and reads the registry through
// pkg/catalog/grpc.
package server
