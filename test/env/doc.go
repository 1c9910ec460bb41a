// Package env provides tests with a cluster that has Remit installed: the embedded control plane, the manifests of a
// profile, Pods of catalog, olm, extension and the sample operator that run as real processes, and builders for the objects that
// the tests need (namespaces, accounts, OperatorGroups, catalogs, Subscriptions).
//
// For debugging, REMIT_BIN is a directory with programs to use instead of those in bin/, and E2E_DIR is a directory in
// which each control plane keeps its state, audit log and Pod logs.
package env
