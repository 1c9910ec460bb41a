// Package operatorgroup maintains the status of OperatorGroups: their target namespaces and the state of the accounts
// that they name. It is the only writer of this status. As the account, it also writes what OLM publishes about a group: the
// annotation olm.providedAPIs, the ClusterRoles olm.og.* and the labels of target namespaces. Nothing depends on these.
//
// The status informs users and wakes other controllers. Remit's writes do not depend on it: a controller that acts for
// a namespace reads the OperatorGroup's spec and the account from the API server (pkg/lib/scoped).
//
//	facts                                     conditions
//	more than one OperatorGroup               MultipleOperatorGroup
//	the named ServiceAccount does not exist   OperatorGroupServiceAccount
//	Remit is allowed to act as the account    AccountUsable
//	the account was deleted and recreated     AccountChanged
//	the targets are known, and within limits  TargetsKnown
//	no permissions in a target namespace      TargetNotAllowed
//	the annotation and ClusterRoles exist     ProvidedAPIsPublished
//	the targets are labeled                   TargetsLabeled
package operatorgroup
