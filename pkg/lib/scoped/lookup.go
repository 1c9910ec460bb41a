package scoped

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// Default is the installation's default account. Only flags can set it.
type Default struct {
	// Account is empty if there is no default account.
	Account types.NamespacedName
	// Namespaces restricts the default account to OperatorGroups in these namespaces; empty means all namespaces.
	Namespaces []string
	// Remit is the namespace in which Remit is installed. Its own ServiceAccounts are never an account.
	Remit string
}

// ParseKey parses the key of a ServiceAccount, "<namespace>/<name>". It returns an error if either part is invalid.
func ParseKey(s string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%q is not of the form <namespace>/<name>", s)
	}
	if errs := validation.ValidateNamespaceName(namespace, false); len(errs) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q is not a valid namespace name: %s", namespace, errs[0])
	}
	if errs := validation.ValidateServiceAccountName(name, false); len(errs) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q is not a valid ServiceAccount name: %s", name, errs[0])
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func (d Default) appliesTo(namespace string) bool {
	return d.Account.Name != "" && (len(d.Namespaces) == 0 || slices.Contains(d.Namespaces, namespace))
}

// accountOf returns the ServiceAccount that an OperatorGroup names or, if it names none, the default account. key is
// empty if there is neither.
func (d Default) accountOf(og *operatorsv1.OperatorGroup) (key types.NamespacedName, isDefault bool) {
	switch {
	case og.Spec.ServiceAccountName != "":
		return types.NamespacedName{Namespace: og.Namespace, Name: og.Spec.ServiceAccountName}, false
	case d.appliesTo(og.Namespace):
		return d.Account, true
	}
	return types.NamespacedName{}, false
}

// Lookup finds the account of a namespace. If a write depends on the result, Reader must not be a cache; for display,
// a cache is sufficient.
type Lookup struct {
	Reader  client.Reader
	Default Default
	// Live means that Reader is the API server, from which only the metadata of ClusterServiceVersions is read: a namespace can have
	// many large ones.
	Live bool
}

// Lookup returns a Lookup with this default account that reads from a reader.
func (d Default) Lookup(from client.Reader) Lookup { return Lookup{Reader: from, Default: d} }

// OperatorGroup returns the only OperatorGroup of the namespace, regardless of its state. The error is an *Error if
// there is none or more than one.
func (l Lookup) OperatorGroup(ctx context.Context, namespace string) (*operatorsv1.OperatorGroup, error) {
	list := &operatorsv1.OperatorGroupList{}
	if err := l.Reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list OperatorGroups in namespace %q: %w", namespace, err)
	}
	switch len(list.Items) {
	case 0:
		return nil, &Error{Reason: NoOperatorGroup, Namespace: namespace, Message: fmt.Sprintf(
			"namespace %q has no OperatorGroup; create one with a ServiceAccount in spec.serviceAccountName", namespace)}
	case 1:
		return &list.Items[0], nil
	}
	found := make([]string, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, list.Items[i].Name)
	}
	slices.Sort(found)
	return nil, &Error{Reason: TooManyOperatorGroups, Namespace: namespace, Message: fmt.Sprintf(
		"namespace %q has %d OperatorGroups (%s); exactly one is required", namespace, len(found), strings.Join(found, ", "))}
}

// Account returns the account of the namespace and its OperatorGroup. The error is an *Error if there is no usable
// account. If the OperatorGroup is known, it is returned even with an error.
func (l Lookup) Account(ctx context.Context, namespace string) (Account, *operatorsv1.OperatorGroup, error) {
	og, err := l.OperatorGroup(ctx, namespace)
	if err != nil {
		return Account{}, nil, err
	}
	account, err := l.AccountOf(ctx, og)
	return account, og, err
}

// AccountOf returns the account of an OperatorGroup. The error is an *Error if there is no usable account.
func (l Lookup) AccountOf(ctx context.Context, og *operatorsv1.OperatorGroup) (Account, error) {
	if err := checkComplete(og); err != nil {
		return Account{}, err
	}
	key, isDefault := l.Default.accountOf(og)
	if key.Name == "" {
		return Account{}, problem(og, NoAccount, fmt.Sprintf("OperatorGroup %s/%s does not name a ServiceAccount "+
			"(spec.serviceAccountName) and no default account is configured for its namespace; nothing can be installed",
			og.Namespace, og.Name))
	}
	if errs := validation.ValidateServiceAccountName(key.Name, false); len(errs) > 0 {
		return Account{}, problem(og, AccountNameInvalid, fmt.Sprintf("OperatorGroup %s/%s: spec.serviceAccountName %q is not a valid name: %s",
			og.Namespace, og.Name, key.Name, strings.Join(errs, "; ")))
	}
	if reserved := CheckReserved(key, l.Default.Remit); reserved != nil {
		return Account{}, problem(og, reserved.Reason, reserved.Message)
	}
	sa := &corev1.ServiceAccount{}
	err := l.Reader.Get(ctx, key, sa)
	switch {
	case apierrors.IsNotFound(err):
		return Account{}, problem(og, AccountMissing, fmt.Sprintf("ServiceAccount %s not found", display(key, isDefault)))
	case err != nil:
		return Account{}, fmt.Errorf("get ServiceAccount %s: %w", key, err)
	}
	return Account{Namespace: key.Namespace, Name: key.Name, UID: sa.UID, Default: isDefault}, nil
}

// CheckNotDeleted returns an *Error for an OperatorGroup that is being deleted. Nothing new is installed through it, even if a
// finalizer delays its deletion; Remit's removals still use its account.
func CheckNotDeleted(og *operatorsv1.OperatorGroup) error {
	if og == nil || og.DeletionTimestamp == nil {
		return nil
	}
	return problem(og, NoAccount, fmt.Sprintf("OperatorGroup %s/%s is being deleted; nothing can be installed", og.Namespace, og.Name))
}

// display returns the text that identifies the ServiceAccount in messages: its name, as in the contract's message
// ("ServiceAccount <n> not found"). For the default account, which can be in another namespace, it returns the
// namespace and name.
func display(key types.NamespacedName, isDefault bool) string {
	if isDefault {
		return key.String() + " (the installation's default account)"
	}
	return key.Name
}

// checkComplete returns an *Error for an OperatorGroup of which caches keep only a part. Without its targets, it would select all namespaces.
func checkComplete(og *operatorsv1.OperatorGroup) error {
	if err := budget.Refused(og); err != nil {
		return problem(og, NoAccount, fmt.Sprintf("OperatorGroup %s/%s: %v", og.Namespace, og.Name, err))
	}
	return nil
}

func problem(og *operatorsv1.OperatorGroup, reason Reason, message string) *Error {
	return &Error{Reason: reason, Namespace: og.Namespace, OperatorGroup: og.Name, Message: message}
}

// ReasonOf returns the reason of the first *Error in the error's chain, or "" if there is none.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// ServiceAccounts returns the names of the ServiceAccounts in a namespace, sorted. r should be a cache.
func ServiceAccounts(ctx context.Context, r client.Reader, namespace string) ([]string, error) {
	list := &corev1.ServiceAccountList{}
	if err := r.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ServiceAccounts in namespace %q: %w", namespace, err)
	}
	out := make([]string, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	slices.Sort(out)
	return out, nil
}
