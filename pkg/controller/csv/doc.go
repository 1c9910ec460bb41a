// Package csv moves each ClusterServiceVersion through its phases. It is the only writer of the status of ClusterServiceVersions.
// Everything that an install needs is written as the account of the OperatorGroup.
//
//	gather facts -> Next(Facts) Transition (pure) -> act as the account -> one status patch
//
// As in OLM v0, the phase and its history determine what is displayed and when a failure is retried, although any user
// with access to the status may have written them. They never determine what may be written: package warrant returns
// the account's client only for operations that the findings of the current reconcile allow.
//
//	""           -> Pending       always
//	Pending      -> InstallReady  all requirements are present
//	InstallReady -> Installing    the Deployments were written
//	             -> Failed        the Deployments were refused
//	             -> Pending       a requirement is missing after all
//	Installing   -> Succeeded     the Deployments are available
//	             -> Pending       a Deployment must be written again, and a requirement is missing
//	             -> Failed        five minutes have passed, or a Deployment is stuck
//	Succeeded    -> Failed        a requirement or a Deployment is missing or unhealthy
//	any          -> Failed        permissions that exceed the account were removed, or cannot be removed
//	Failed       -> Pending       the reason for the failure no longer applies
//	             -> Succeeded     the Deployments became available after all
//	any          -> Replacing     a newer version replaces the CSV; Deleting follows once the newer version is Succeeded
//	any          -> Failed        there is not exactly one suitable OperatorGroup, or the strategy is invalid
//	not Succeeded-> Pending       there is no account to act as
//
// If the account loses permissions or is deleted, an installed operator continues to run. The message and the requirement
// status report the problem. Roles and bindings that the account could not write any more are removed after a grace
// period (excess.go).
//
// There is no polling; the watches are in wake.go. A delay is requested only for events that no watch reports, mainly
// the install timeout, retries after failures, and the end of that grace period. The delay before a retry is as long as the problem has lasted.
package csv
