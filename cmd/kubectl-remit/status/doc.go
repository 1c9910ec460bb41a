// Package status implements "kubectl remit status": for each OperatorGroup, its account and whether it is usable,
// what is installed, what is blocked and why, and permissions of the account that no install needs.
//
// It reads the cluster as the user who runs it and writes nothing. It notes what that user is not allowed to read and reports the
// rest.
//
// For ClusterExtensions, it reports the same, and grants that none of them uses.
//
//	gather (world.go) -> report (report.go: account, installs, blocked; excess.go; extension.go, dangling.go) -> text or YAML or JSON
package status
