// Package csv moves each ClusterServiceVersion through its phases. It is the only writer of their status; everything
// that an install needs is written as the account of the OperatorGroup.
//
//	gather facts -> Next(Facts) Transition (pure) -> act as the account -> one status patch
//
// As in OLM v0, the phase and its history are input for what is displayed and when something is retried, although any
// user with access to the status may have written them. Whether anything may be written is derived anew in each
// reconcile: package warrant returns the account's client only for what this reconcile has found.
//
//	""           -> Pending       always
//	Pending      -> InstallReady  all requirements are present
//	InstallReady -> Installing    the Deployments were written
//	             -> Failed        they were refused
//	             -> Pending       a requirement is missing after all
//	Installing   -> Succeeded     they are available
//	             -> Pending       one must be written again, and a requirement is missing
//	             -> Failed        five minutes have passed, or one is stuck
//	Succeeded    -> Failed        a requirement or a Deployment is missing or unhealthy
//	Failed       -> Pending       the reason of the failure no longer applies
//	             -> Succeeded     they became available after all
//	any          -> Replacing     a newer version replaces it; then Deleting, once that has Succeeded
//	any          -> Failed        not exactly one OperatorGroup, or an unsuitable one; an invalid strategy
//	not Succeeded-> Pending       there is no account to act as
//
// An installed operator is left alone if the account loses permissions or is deleted: this is reported in the message
// and the requirement status, and nothing is removed (security model, D4).
//
// Nothing polls. The watches are in wake.go. A delay is requested only for what no watch reports: the install
// timeout, and retries after failures, each after as long as the problem has lasted.
package csv
