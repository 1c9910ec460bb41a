// Package operatorgroup keeps the status of OperatorGroups: their target namespaces and the state of
// the account that they name. It is the only writer of that status, and writes nothing else.
//
// What it says is for people and for waking others. No write of Remit is decided by it: whoever acts
// for a namespace reads the OperatorGroup's spec and the account live (pkg/lib/scoped).
//
//	facts                                     conditions
//	more than one OperatorGroup               MultipleOperatorGroup
//	the named ServiceAccount does not exist   OperatorGroupServiceAccount
//	there is an account that Remit may use    AccountUsable
//	it was deleted and created again          AccountChanged
//	the targets can be told and are not many  TargetsKnown
//	the account holds nothing in a target     TargetNotAllowed
package operatorgroup
