package scoped

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Account is a ServiceAccount as it was read live: an identity with its UID.
type Account struct {
	Namespace string
	Name      string
	UID       types.UID
	// Default says that it is the installation's default account, not one that an OperatorGroup names.
	Default bool
}

// Key is the ServiceAccount's namespace and name.
func (a Account) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
}

// Username is the user name of a ServiceAccount.
func Username(namespace, name string) string {
	return fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name)
}

// Groups are the groups of every ServiceAccount of a namespace.
func Groups(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
}

// Reason says why a namespace has no usable account or targets. The values are condition reasons.
type Reason string

// Reasons of an Error.
const (
	// NoOperatorGroup: there is none in the namespace.
	NoOperatorGroup Reason = "NoOperatorGroup"
	// TooManyOperatorGroups: there is more than one, whatever their state.
	TooManyOperatorGroups Reason = "TooManyOperatorGroups"
	// NoAccount: the OperatorGroup names no ServiceAccount and no default account applies.
	NoAccount Reason = "NoAccount"
	// AccountNameInvalid: what the OperatorGroup names cannot be a ServiceAccount.
	AccountNameInvalid Reason = "AccountNameInvalid"
	// AccountMissing: the ServiceAccount does not exist.
	AccountMissing Reason = "ServiceAccountNotFound"
	// TooManyTargets: the OperatorGroup has more than MaxTargets.
	TooManyTargets Reason = "TooManyTargets"
	// AccountNotEnrolled: Remit may not mint a token for it.
	AccountNotEnrolled Reason = "AccountNotEnrolled"
	// AccountHoldsTooMuch: more roles are bound to it than are looked at.
	AccountHoldsTooMuch Reason = "AccountHoldsTooMuch"
	// AccountChanged: it was deleted and created again since it was looked up.
	AccountChanged Reason = "AccountChanged"
)

// Error says which OperatorGroup has no usable account or targets, and why.
type Error struct {
	Reason Reason
	// Namespace is the one that was looked up.
	Namespace string
	// OperatorGroup is the name of the one concerned; "" where there is none or more than one.
	OperatorGroup string
	Message       string
}

func (e *Error) Error() string { return e.Message }

// NotEnrolled is the Error of an account that this program may not request a token for.
func NotEnrolled(a Account) *Error {
	return &Error{Reason: AccountNotEnrolled, Namespace: a.Namespace, Message: fmt.Sprintf(
		"ServiceAccount %s is not enrolled: Remit may not request a token for it; "+
			"grant create on serviceaccounts/token with resourceNames [%s] in namespace %s to Remit's ServiceAccounts",
		a.Key(), a.Name, a.Namespace)}
}
