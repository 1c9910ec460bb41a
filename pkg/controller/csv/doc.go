// Package csv drives each ClusterServiceVersion through its phases. It is the only writer of their
// status; everything that an install needs is written as the account of the OperatorGroup.
//
//	gather facts -> Next(Facts) Transition (pure) -> act as-account -> one status patch
//
// The phase and its history are input, as everywhere in OLM v0, to what is shown and when something is tried again;
// anybody may have written them. Whether anything may be written is derived anew each time: package warrant gives out
// the account's client only for what this visit has found.
//
//	""           -> Pending       always
//	Pending      -> InstallReady  all requirements are there
//	InstallReady -> Installing    the Deployments were written
//	             -> Failed        they were refused
//	             -> Pending       a requirement is missing after all
//	Installing   -> Succeeded     they are available
//	             -> Pending       one is to be written again, and a requirement is missing
//	             -> Failed        five minutes have passed, or one is stuck
//	Succeeded    -> Failed        a requirement or a Deployment went away or fell ill
//	Failed       -> Pending       what stood in the way is gone
//	             -> Succeeded     they became available after all
//	any          -> Replacing     a newer version names it; then Deleting, once that has Succeeded
//	any          -> Failed        not exactly one OperatorGroup, or one that does not suit; a bad strategy
//	not Succeeded-> Pending       there is no account to act as
//
// An installed operator is left alone where the account has shrunk or is gone: that is reported in the
// message and the requirement status, and nothing is removed (security model, D4).
//
// Nothing polls. The watches are in watches.go; a duration is asked for only where no watch can tell:
// the install timeout, and another try after a failure, each as late again as the trouble has lasted.
package csv
