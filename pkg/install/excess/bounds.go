package excess

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Bounds are the accounts one of which must cover each permission. Without an account, nothing is covered.
type Bounds struct {
	accounts []Account
	subjects []rbac.Subject
}

// NewBounds returns the Bounds of subjects according to RBAC. rulesOf returns the rules of a role, and proofs tell which bindings
// Remit has created for an install. These do not count: a bundle could otherwise bind its own account, or a tenant name the
// operator's ServiceAccount as the account, and the permissions would justify themselves (docs/adr/0082).
func NewBounds(listers rbac.Listers, rulesOf rbac.RoleRules, proofs ownerutil.Proofs, subjects ...rbac.Subject) Bounds {
	out := Bounds{subjects: subjects}
	granted := func(b rbac.Binding) bool {
		obj, ok := b.(client.Object)
		return !ok || !ownerutil.IsProven(obj, proofs)
	}
	// All accounts together keep what Recent keeps, because there can be many, and they are examined one after the other.
	grants := rbac.NewRecent(func(key accountScope) rbac.Permissions {
		return listers.LowerBoundOf(subjects[key.account], key.namespace, granted)
	})
	holdings := rbac.NewRecent(func(key accountScope) rbac.Permissions {
		return listers.LowerBound(subjects[key.account], key.namespace)
	})
	for i := range subjects {
		out.accounts = append(out.accounts, Account{
			RulesOf: rulesOf, Includes: listers.Includes,
			Granted: func(namespace string) rbac.Permissions { return grants.Get(accountScope{i, namespace}) },
			Held:    func(namespace string) rbac.Permissions { return holdings.Get(accountScope{i, namespace}) },
		})
	}
	if len(subjects) == 0 {
		out.accounts = append(out.accounts, Account{RulesOf: rulesOf, Granted: func(namespace string) rbac.Permissions {
			return rbac.Permissions{Namespace: namespace}
		}})
	}
	return out
}

// accountScope identifies an account, by its index, and a scope.
type accountScope struct {
	account   int
	namespace string
}

// Find returns the roles and bindings that exceed each of the accounts, as Account.Find does.
func (b Bounds) Find(objs []client.Object) (found []Object, err error) {
	for i, account := range b.accounts {
		if i > 0 {
			objs = nil
			for _, o := range found {
				objs = append(objs, o.Object)
			}
		}
		if found, err = account.Find(objs); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Confirm returns the objects for which the API server confirms that they exceed each of the accounts. isComplete is as in Account.Confirm.
func (b Bounds) Confirm(ctx context.Context, ask Reviewer, objs []Object) (confirmed []Object, isComplete bool, err error) {
	isComplete = true
	for i, subject := range b.subjects {
		var isDecided bool
		if objs, isDecided, err = b.accounts[i].Confirm(ctx, ask, subject, objs); err != nil {
			return nil, false, err
		}
		isComplete = isComplete && isDecided
	}
	return objs, isComplete, nil
}
