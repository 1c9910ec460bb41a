// Package preflight says, before the first write, everything that a plan needs and its account does
// not hold: needs as values, each with its cause, evaluated locally over the RBAC listers, and
// rendered as sentences and as RBAC to paste.
//
// It explains and never permits: the API server decides at each write. The installplan controller
// calls it; so does the CLI.
package preflight
