package scoped

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// maxBounding is the maximum number of OperatorGroups of a namespace, or of recorded accounts, that count. If there are more, none does.
const maxBounding = 20

// Bound contains what bounds the permissions that installed operators of a namespace may keep (docs/adr/0082). It does not
// determine what may be installed: for that, the namespace needs exactly one OperatorGroup.
type Bound struct {
	Namespace string
	// Accounts are the ServiceAccounts that the OperatorGroups name, or the default account for an OperatorGroup that names none
	// and for a namespace without an OperatorGroup. They need not exist, because RBAC refers to them by name. An operator may keep
	// what one of them has; if there are none, it may keep nothing.
	Accounts []types.NamespacedName
	// Default is true if one of them is the default account because an OperatorGroup names none. The webhooks of the namespace
	// are then not bounded.
	Default bool
	// Group is the name of the OperatorGroup; "" if there is none or more than one.
	Group string
	// KeptBy is the name of an OperatorGroup whose annotation keeps the excess; "" if there is none.
	KeptBy string
	// LeftToOLM is true if OLM v0 manages the namespace.
	LeftToOLM bool
}

// Bound returns what bounds the permissions of the operators of a namespace.
func (l Lookup) Bound(ctx context.Context, namespace string) (Bound, error) {
	list := &operatorsv1.OperatorGroupList{}
	if err := l.Reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return Bound{}, fmt.Errorf("list OperatorGroups in namespace %q: %w", namespace, err)
	}
	out := Bound{Namespace: namespace}
	groups := list.Items
	if len(groups) == 1 {
		out.Group = groups[0].Name
	}
	if len(groups) == 0 {
		none := operatorsv1.OperatorGroup{}
		none.Namespace = namespace
		groups = append(groups, none)
	}
	for i := range groups {
		og := &groups[i]
		if KeepsExcess(og) {
			out.KeptBy = og.Name
		}
		out.LeftToOLM = out.LeftToOLM || LeftToOLM(og)
		if key, isDefault := l.named(og); key.Name != "" && len(groups) <= maxBounding {
			out.Accounts = append(out.Accounts, key)
			out.Default = out.Default || isDefault
		}
	}
	out.Accounts = unique(out.Accounts)
	if len(list.Items) > 0 {
		return out, nil
	}
	return l.withoutGroup(ctx, out)
}

// withoutGroup replaces the default account with the accounts that the ClusterServiceVersions have recorded, unless it is one of them:
// the OperatorGroup may have named an account until it was deleted.
func (l Lookup) withoutGroup(ctx context.Context, b Bound) (Bound, error) {
	if !b.Default {
		return b, nil
	}
	recorded, err := l.recorded(ctx, b.Namespace)
	if len(recorded) > 0 && !slices.Contains(recorded, l.Default.Account) {
		b.Accounts, b.Default = recorded, false
	}
	return b, err
}

// HookBound returns what bounds the webhooks of a namespace: what Bound returns or, if it contains no account, the accounts that the
// ClusterServiceVersions of the namespace have recorded (docs/adr/0085). Webhooks are narrowed at once, so an OperatorGroup that is
// being replaced must not disable them; but they may intercept only what the last account may still read and write (docs/adr/0088).
func (l Lookup) HookBound(ctx context.Context, namespace string) (Bound, error) {
	out, err := l.Bound(ctx, namespace)
	if err != nil || len(out.Accounts) > 0 {
		return out, err
	}
	recorded, err := l.recorded(ctx, namespace)
	for _, key := range recorded {
		if key.Namespace == namespace {
			out.Accounts = append(out.Accounts, key)
		}
	}
	return out, err
}

// recorded returns the accounts that the ClusterServiceVersions of a namespace have recorded: ServiceAccounts of the namespace or the
// default account. It returns none if there are too many.
func (l Lookup) recorded(ctx context.Context, namespace string) ([]types.NamespacedName, error) {
	var out []types.NamespacedName
	add := func(csv client.Object) {
		in, name, _ := strings.Cut(csv.GetAnnotations()[names.AnnotationAccount], "/")
		key := types.NamespacedName{Namespace: in, Name: name}
		if csv.GetLabels()[names.LabelCopiedFrom] == "" && (key == l.Default.Account || in == namespace) && l.mayBound(key) {
			out = append(out, key)
		}
	}
	if l.Live {
		if err := EachVersion(ctx, l.Reader, namespace, func(csv *metav1.PartialObjectMetadata) { add(csv) }); err != nil {
			return nil, err
		}
	} else {
		list := &operatorsv1alpha1.ClusterServiceVersionList{}
		if err := l.Reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list ClusterServiceVersions in namespace %q: %w", namespace, err)
		}
		for i := range list.Items {
			add(&list.Items[i])
		}
	}
	if out = unique(out); len(out) > maxBounding {
		return nil, nil
	}
	return out, nil
}

// mayBound reports whether a ServiceAccount can be an account.
func (l Lookup) mayBound(key types.NamespacedName) bool {
	return key.Name != "" && CheckReserved(key, l.Default.Remit) == nil && len(validation.ValidateServiceAccountName(key.Name, false)) == 0
}

// Acting returns the accounts as which what exceeds a Bound may be removed: the account of the only OperatorGroup, the accounts of
// the Bound, and the default account. Removals need no OperatorGroup, because a tenant can delete it or create a second one
// (docs/adr/0088). why is the reason why the first of them cannot be used, or nil.
func (l Lookup) Acting(ctx context.Context, b Bound) (accounts []Account, why, err error) {
	account, _, why := l.Account(ctx, b.Namespace)
	if why != nil && ReasonOf(why) == "" {
		return nil, nil, why
	}
	if why == nil {
		accounts = append(accounts, account)
	}
	var others []string // the last is the default account
	for _, key := range b.Accounts {
		if key.Namespace == b.Namespace && key.Name != "" {
			others = append(others, key.Name)
		}
	}
	for _, other := range append(others, "") {
		group := &operatorsv1.OperatorGroup{}
		group.Namespace, group.Spec.ServiceAccountName = b.Namespace, other
		account, err := l.AccountOf(ctx, group)
		switch {
		case err != nil && ReasonOf(err) == "":
			return nil, nil, err
		case err == nil && !slices.Contains(accounts, account):
			accounts = append(accounts, account)
		}
	}
	return accounts, why, nil
}

// Named returns the ServiceAccounts that the OperatorGroups of a namespace name, or the default account for those that name none,
// sorted. They need not exist. The author check compares authors with each of them, even if nothing can be installed because
// there are several OperatorGroups, or because one is being deleted (docs/adr/0085).
func (l Lookup) Named(ctx context.Context, namespace string) ([]types.NamespacedName, error) {
	list := &operatorsv1.OperatorGroupList{}
	if err := l.Reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list OperatorGroups in namespace %q: %w", namespace, err)
	}
	var out []types.NamespacedName
	for i := range list.Items {
		og := &list.Items[i]
		if key, _ := l.named(og); key.Name != "" {
			out = append(out, key)
		}
	}
	return unique(out), nil
}

// named returns the ServiceAccount of an OperatorGroup. key is empty if there is none, or if it can never act.
func (l Lookup) named(og *operatorsv1.OperatorGroup) (key types.NamespacedName, isDefault bool) {
	key, isDefault = l.Default.accountOf(og)
	// Of an OperatorGroup that could not be decoded, the name may be missing: it names an account then, but not the default one.
	if isDefault && budget.Refused(og) != nil || !l.mayBound(key) {
		return types.NamespacedName{}, false
	}
	return key, isDefault
}

// unique sorts keys and removes duplicates.
func unique(keys []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(keys)
}

// ToRecord returns the account that an object has to remember (docs/adr/0085), given those that the OperatorGroups name now and the
// recorded one, if there is one. An object remembers one account: if there are several, the recorded one remains as long as an
// OperatorGroup names it, and otherwise it is the first. Without any, the recorded one remains.
func ToRecord(accounts []types.NamespacedName, recorded string) string {
	if len(accounts) == 0 || slices.ContainsFunc(accounts, func(a types.NamespacedName) bool { return a.String() == recorded }) {
		return recorded
	}
	return accounts[0].String()
}

// Same reports whether two Bounds have the same accounts and annotations.
func (b Bound) Same(other Bound) bool {
	return slices.Equal(b.Accounts, other.Accounts) && (b.KeptBy == "") == (other.KeptBy == "") && b.LeftToOLM == other.LeftToOLM &&
		b.Default == other.Default
}

// String describes the accounts in messages.
func (b Bound) String() string {
	switch len(b.Accounts) {
	case 0:
		return "namespace " + b.Namespace + ", which has no account,"
	case 1:
		return "ServiceAccount " + b.Accounts[0].String()
	}
	all := make([]string, 0, len(b.Accounts))
	for _, account := range b.Accounts {
		all = append(all, account.String())
	}
	return "each of the ServiceAccounts " + strings.Join(all, ", ")
}

// Remedy describes how to keep permissions that exceed the accounts.
func (b Bound) Remedy() string {
	switch {
	case len(b.Accounts) == 0:
		return "To keep them, create one OperatorGroup, whose ServiceAccount has the permissions, in namespace " + b.Namespace
	case b.Group == "":
		return "To keep them, grant the permissions to the ServiceAccount of an OperatorGroup of the namespace"
	}
	return fmt.Sprintf("To keep them, grant the permissions to the ServiceAccount, or set the annotation %s=true of OperatorGroup %s/%s",
		names.AnnotationKeepExcess, b.Namespace, b.Group)
}
