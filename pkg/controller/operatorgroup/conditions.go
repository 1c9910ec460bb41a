package operatorgroup

import (
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Condition types. The first two are defined by OLM v0 and are True if something is wrong; the others are specific to Remit.
const (
	// MultipleOperatorGroup is True if the namespace has more than one OperatorGroup.
	MultipleOperatorGroup = "MultipleOperatorGroup"
	// OperatorGroupServiceAccount is True if the named ServiceAccount does not exist.
	OperatorGroupServiceAccount = "OperatorGroupServiceAccount"
	// AccountUsable is True if the account exists and Remit is allowed to act as it.
	AccountUsable = "AccountUsable"
	// AccountChanged is True after the named account was deleted and recreated, until the OperatorGroup's spec changes. It is
	// Unknown while the account does not exist.
	AccountChanged = "AccountChanged"
	// TargetsKnown is False if the target namespaces cannot be determined.
	TargetsKnown = "TargetsKnown"
	// TargetNotAllowed is True if the account has no permissions of its own in a target namespace.
	TargetNotAllowed = "TargetNotAllowed"
)

// Condition reasons, in addition to those of scoped.Reason, which AccountUsable has if it is False.
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
