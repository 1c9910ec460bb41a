// Package env provides tests with a cluster that has Remit installed: the embedded control plane, the manifests of a
// profile with catalog, olm and the sample operator as Pods that are real processes, and builders for what the stories
// need (namespaces, accounts, OperatorGroups, catalogs, Subscriptions).
//
// For debugging, REMIT_BIN is a directory to take the programs from instead of bin/, and E2E_DIR a directory in which
// each control plane keeps its state, audit log and Pod logs.
package env
