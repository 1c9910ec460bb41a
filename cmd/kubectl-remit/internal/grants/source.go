package grants

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// AccountPermissions gives access to the permissions of one account.
type AccountPermissions struct {
	account types.NamespacedName
	// RulesOf resolves the roles that a bundle's bindings refer to.
	RulesOf rbac.RoleRules
	// Permissions returns the account's permissions in a scope, including errors for what could not be read.
	Permissions func(namespace string) rbac.Permissions
	// Ask returns the API server's answer; it is nil if there is no API server.
	Ask preflight.Reviewer
	// Notes tell users how the permissions were determined.
	Notes []string
}

// Listed returns the permissions that RBAC objects grant.
func Listed(listers rbac.Listers, account types.NamespacedName) *AccountPermissions {
	subject := rbac.ServiceAccount(account.Namespace, account.Name)
	return &AccountPermissions{
		account:     account,
		RulesOf:     listers.RulesOf,
		Permissions: func(namespace string) rbac.Permissions { return listers.LowerBound(subject, namespace) },
	}
}

// Report compares needs with the permissions. The API server confirms each missing one.
func (r *AccountPermissions) Report(ctx context.Context, needs []preflight.Need) preflight.Report {
	report := preflight.Examine(r.account, needs, r.Permissions)
	if r.Ask != nil {
		report = (&preflight.Confirmer{Ask: r.Ask}).Confirm(ctx, "", report)
	}
	report.Notes = append(report.Notes, r.Notes...)
	return report
}
