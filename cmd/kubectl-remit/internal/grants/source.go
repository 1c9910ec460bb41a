package grants

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Rights say what one account holds.
type Rights struct {
	account types.NamespacedName
	// RulesOf resolves the roles that a bundle's bindings refer to.
	RulesOf rbac.RoleRules
	// Holding is what the account holds in a scope; what could not be read of it is in there, too.
	Holding func(namespace string) rbac.Permissions
	// Ask is the API server's own answer; nil where there is nobody to ask.
	Ask preflight.Reviewer
	// Notes are what a user has to know of how it was found out.
	Notes []string
}

// Listed are the Rights in RBAC objects that were read.
func Listed(listers rbac.Listers, account types.NamespacedName) *Rights {
	subject := rbac.ServiceAccount(account.Namespace, account.Name)
	return &Rights{
		account: account,
		RulesOf: listers.RulesOf,
		Holding: func(namespace string) rbac.Permissions { return listers.LowerBound(subject, namespace) },
	}
}

// Report holds needs against the rights. What they do not give, the API server is asked about.
func (r *Rights) Report(ctx context.Context, needs []preflight.Need) preflight.Report {
	report := preflight.Examine(r.account, needs, r.Holding)
	if r.Ask != nil {
		report = (&preflight.Confirmer{Ask: r.Ask}).Confirm(ctx, "", report)
	}
	report.Notes = append(report.Notes, r.Notes...)
	return report
}
