// Package author tests the author checks (docs/adr/0008 and 0020) on a real API server, in both profiles. Unless users
// may impersonate an account, they can neither make an OperatorGroup use it, directly or by default, nor write the spec
// of a ClusterServiceVersion that is installed as that account. All other changes are allowed.
package author
