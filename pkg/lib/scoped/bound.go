package scoped

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// maxBounding is the maximum number of OperatorGroups of a namespace whose accounts count. If there are more, none does.
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
		key, isDefault := l.Default.accountOf(og)
		if len(groups) <= maxBounding && key.Name != "" && CheckReserved(key, l.Default.Remit) == nil && len(validation.ValidateServiceAccountName(key.Name, false)) == 0 {
			out.Accounts = append(out.Accounts, key)
			out.Default = out.Default || isDefault
		}
	}
	slices.SortFunc(out.Accounts, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	out.Accounts = slices.Compact(out.Accounts)
	return out, nil
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
