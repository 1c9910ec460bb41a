// Package author tests the author checks (docs/adr/0008 and 0020) on a real API server, in both profiles: no user can
// make an OperatorGroup use an account that the user may not impersonate, directly or by default, or write the spec of a
// ClusterServiceVersion that such an account installs. All other changes are allowed.
package author
