// Package env gives tests a cluster with Remit on it: the embedded control plane, the manifests of a
// profile with the three programs as Pods that are real processes, and builders for what the stories
// need (namespaces, accounts, OperatorGroups, catalogs, Subscriptions).
//
// For people who look for a fault: REMIT_BIN names a folder to take the programs from instead of bin/,
// and E2E_DIR one in which each control plane leaves its state, audit log and the logs of its Pods.
package env
