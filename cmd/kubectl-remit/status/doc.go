// Package status is "kubectl remit status": for each OperatorGroup its account and whether that can be
// used, what is installed, what is blocked and why, and what the account holds but no install needs.
//
// It reads as the user who asks and writes nothing. What that user may not read is said, and the rest is
// reported.
//
//	gather (world.go) -> report (report.go: account, installs, blocked; excess.go) -> text or YAML or JSON
package status
