package operatorgroup

import (
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Condition types. The first two are OLM v0's and are True where something is wrong; the others are
// Remit's.
const (
	// MultipleOperatorGroup is True where the namespace has more than one OperatorGroup.
	MultipleOperatorGroup = "MultipleOperatorGroup"
	// OperatorGroupServiceAccount is True where the named ServiceAccount does not exist.
	OperatorGroupServiceAccount = "OperatorGroupServiceAccount"
	// AccountUsable is True where there is an account and Remit may act as it.
	AccountUsable = "AccountUsable"
	// AccountChanged is True from the moment at which the named account was found to be another one of
	// the same name until the OperatorGroup's spec is changed, and Unknown while the account is gone.
	AccountChanged = "AccountChanged"
	// TargetsKnown is False where the target namespaces cannot be told.
	TargetsKnown = "TargetsKnown"
	// TargetNotAllowed is True where the account holds nothing in a target namespace.
	TargetNotAllowed = "TargetNotAllowed"
)

// Condition reasons besides those of scoped.Reason, which AccountUsable has where it is False.
const (
	ReasonMultiple         = "MultipleOperatorGroupsFound"
	ReasonOnly             = "OnlyOperatorGroup"
	ReasonMissing          = string(scoped.AccountMissing)
	ReasonFound            = "ServiceAccountFound"
	ReasonNotNamed         = "NoServiceAccountNamed"
	ReasonUsable           = "Enrolled"
	ReasonNotEnrolled      = string(scoped.AccountNotEnrolled)
	ReasonTooMuch          = string(scoped.AccountHoldsTooMuch)
	ReasonSame             = "Unchanged"
	ReasonGone             = "AccountGone"
	ReasonRecreated        = "AccountRecreated"
	ReasonListed           = "NamespacesListed"
	ReasonSelected         = "NamespacesSelected"
	ReasonAll              = "AllNamespaces"
	ReasonInvalidSelector  = "InvalidSelector"
	ReasonTooManyTargets   = string(scoped.TooManyTargets)
	ReasonNoRights         = "AccountHoldsNothing"
	ReasonRights           = "AccountHoldsRights"
	ReasonNoAccountYet     = "NoUsableAccount"
	messageMultiple        = "Multiple OperatorGroup found in the same namespace"
	messageAccountNotFound = "ServiceAccount %s not found"
)
