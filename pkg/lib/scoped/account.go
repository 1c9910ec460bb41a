package scoped

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/remit-olm/remit/pkg/lib/message"
)

// Account is the identity of an existing ServiceAccount, including its UID.
type Account struct {
	Namespace string
	Name      string
	UID       types.UID
	// Default is true for the installation's default account, and false for an account that an OperatorGroup names.
	Default bool
}

// Key returns the ServiceAccount's namespace and name.
func (a Account) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
}

// Username returns the user name of a ServiceAccount.
func Username(namespace, name string) string {
	return serviceaccount.MakeUsername(namespace, name)
}

// Reason explains why a namespace has no usable account or targets. The values are condition reasons.
type Reason string

// Reasons of an Error.
const (
	// NoOperatorGroup: the namespace has no OperatorGroup.
	NoOperatorGroup Reason = "NoOperatorGroup"
	// TooManyOperatorGroups: the namespace has more than one OperatorGroup, regardless of their state.
	TooManyOperatorGroups Reason = "TooManyOperatorGroups"
	// NoAccount: the OperatorGroup names no ServiceAccount and no default account applies.
	NoAccount Reason = "NoAccount"
	// AccountNameInvalid: the OperatorGroup's spec.serviceAccountName is not a valid name.
	AccountNameInvalid Reason = "AccountNameInvalid"
	// AccountMissing: the ServiceAccount does not exist.
	AccountMissing Reason = "ServiceAccountNotFound"
	// TooManyTargets: the OperatorGroup has more than MaxTargets targets.
	TooManyTargets Reason = "TooManyTargets"
	// AccountNotEnrolled: Remit is not allowed to request tokens for the account.
	AccountNotEnrolled Reason = "AccountNotEnrolled"
	// AccountHoldsTooMuch: the account is bound to more roles than Remit evaluates.
	AccountHoldsTooMuch Reason = "AccountHoldsTooMuch"
	// AccountChanged: the account was deleted and recreated after the lookup.
	AccountChanged Reason = "AccountChanged"
	// NamespaceRecreated: the namespace of the account was created, perhaps again, after a user was allowed to use the account.
	NamespaceRecreated Reason = "NamespaceRecreated"
	// AccountReserved: the account is a controller identity of Remit, or its optional identity for removals.
	AccountReserved Reason = "AccountReserved"
	// AccountUnlimited: the admission policy that limits the account is missing or differs.
	AccountUnlimited Reason = "AccountUnlimited"
)

// Error describes why an OperatorGroup has no usable account or targets.
type Error struct {
	Reason Reason
	// Namespace is the namespace that was looked up.
	Namespace string
	// OperatorGroup is the name of the OperatorGroup; "" if there is none or more than one.
	OperatorGroup string
	Message       string
	// Help is RBAC that solves the problem as an alternative to the command with which the message ends; "" if there is none.
	Help message.Text
}

func (e *Error) Error() string { return e.Message }

// Text returns the message and the help.
func (e *Error) Text() message.Text {
	if e.Help == "" {
		return message.Line(e.Message)
	}
	return message.Lines(message.Sprintf("%s or apply:", e.Message), e.Help)
}

// UndecidedError means that the API server could not decide which namespaces an account is allowed to get. Another attempt is needed.
type UndecidedError struct{ Err error }

func (e *UndecidedError) Error() string {
	return "cannot determine all target namespaces, because the API server has not decided which of them the account is allowed to get"
}

// Unwrap returns the reason. It names a namespace that readers of a status may not be allowed to see.
func (e *UndecidedError) Unwrap() error { return e.Err }

// NotEnrolled returns the Error that reports that this program is not allowed to request tokens for the account.
func NotEnrolled(a Account) *Error {
	return &Error{Reason: AccountNotEnrolled, Namespace: a.Namespace, Message: fmt.Sprintf(
		"ServiceAccount %s is not enrolled: Remit is not allowed to request a token for it; "+
			"grant create on serviceaccounts/token with resourceNames [%s] in namespace %s to Remit's ServiceAccounts",
		a.Key(), a.Name, a.Namespace)}
}
