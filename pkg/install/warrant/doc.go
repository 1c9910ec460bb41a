// Package warrant guards access to an account's client. A caller that wants to write something because of a
// ClusterServiceVersion names the operation and passes what the current reconcile found about that
// ClusterServiceVersion; the caller gets the client only if these findings allow the operation. There is no other way
// to get the client, so new code cannot omit the check (security model, rule 3). The phase of a ClusterServiceVersion
// is not part of the findings.
//
// This check explains refusals and is a second line of defense; the API server still authorizes each write. The csv
// controller is the only caller.
package warrant
