package deployment

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Reach selects the bindings that count when the permissions of ServiceAccounts are compared with those of an account
// (docs/adr/0092). Every user can bind a ServiceAccount in their own namespaces without asking anybody, and what they give away
// there must not prevent its use.
type Reach struct {
	RBAC rbac.Listers
	// Installed returns the owner for which an install that the same account bounds created a binding.
	Installed func(rbac.Binding) (ownerutil.Owner, bool)
}

// Of returns a function that selects the bindings that count for a ServiceAccount: those in its namespace, ClusterRoleBindings, and those
// that an install created for it elsewhere, or that OLM created and an administrator has handed over, whose names contain no hash. Those that are being deleted count: everybody who may change a binding can keep it with a
// finalizer, also without the permissions that it grants.
func (r Reach) Of(key types.NamespacedName) func(rbac.Binding) bool {
	return func(b rbac.Binding) bool {
		if in := b.GetNamespace(); in == rbac.ClusterScope || in == key.Namespace {
			return true
		}
		owner, ok := r.Installed(b)
		return ok && (!hasHash(b.GetName()) || r.IsRenderedFor(b, key.Name, owner))
	}
}

// IsRenderedFor reports whether a binding of another namespace grants to a ServiceAccount what the owner's install created it for.
// Users of that namespace may have added a subject to the binding, or rules to its Role; both then grant what these users have. The name
// of the binding, to which its proof applies, contains a hash of what it was created for. The label suggests the version.
func (r Reach) IsRenderedFor(b rbac.Binding, serviceAccount string, owner ownerutil.Owner) bool {
	rules, err := r.RBAC.RulesOf(rbac.RoleRefOf(b), b.GetNamespace())
	if err != nil {
		return false // without its Role, it grants nothing
	}
	encoded, err := json.Marshal(rbac.KeptRules(rules))
	if err != nil {
		return true // not reached: encoding rules does not fail
	}
	for _, csv := range []string{owner.CSV, b.GetLabels()[names.LabelOwner]} {
		owner.CSV = csv
		if strings.HasSuffix(b.GetName(), "-"+owner.GrantHash(serviceAccount, b.GetNamespace(), encoded)) {
			return true
		}
	}
	return false
}

// hasHash reports whether the name of a binding can end with an ownerutil.Hash.
func hasHash(name string) bool {
	hash := name[strings.LastIndexByte(name, '-')+1:]
	isOther := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '2' || r > '7') }
	return len(hash) == len(ownerutil.Hash()) && !strings.ContainsFunc(hash, isOther)
}
