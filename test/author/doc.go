// Package author tests the author checks (docs/adr/0008 and 0020) on a real API server, in both profiles: no user makes an
// OperatorGroup name, or stand for, an account that the user may not impersonate, or writes the spec of a
// ClusterServiceVersion that such an account installs; all other changes are free.
package author
