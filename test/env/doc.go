// Package env gives tests a cluster with Remit on it: the embedded control plane, the manifests of a
// profile with the three programs as Pods that are real processes, and builders for what the stories
// need (namespaces, accounts, OperatorGroups, catalogs, Subscriptions).
package env
