package grants

import (
	"context"
	"errors"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Permissions provides the permissions of one identity.
type Permissions struct {
	identity scoped.Identity
	// listers contains the RBAC that was read; unread is the reason why it could not be read.
	listers rbac.Listers
	unread  error
	// RulesOf resolves the roles that a bundle's bindings refer to.
	RulesOf rbac.RoleRules
	// In returns the identity's permissions in a scope, including errors for objects that could not be read.
	In func(namespace string) rbac.Permissions
	// Ask asks the API server whether a rule is allowed; it is nil if there is no API server or the user is not allowed
	// to ask.
	Ask preflight.Reviewer
	// Notes tell users how the permissions were determined.
	Notes []string
}

// Listed returns the permissions that the listed RBAC objects grant to the identity.
func Listed(listers rbac.Listers, identity scoped.Identity) *Permissions {
	subject := rbac.SubjectOf(identity)
	return &Permissions{
		identity: identity,
		listers:  listers,
		RulesOf:  listers.RulesOf,
		In:       func(namespace string) rbac.Permissions { return listers.LowerBound(subject, namespace) },
	}
}

// Report compares the needs with the identity's permissions. If Ask is set, Report asks the API server about each
// missing permission, because authorizers other than RBAC may allow it.
func (r *Permissions) Report(ctx context.Context, needs []preflight.Need) preflight.Report {
	report := preflight.Examine(r.identity, needs, r.In)
	if r.Ask != nil {
		report = (&preflight.Confirmer{Ask: r.Ask}).Confirm(ctx, "", report)
	}
	report.Notes = append(report.Notes, r.Notes...)
	return report
}

// IsEnrolled reports whether RBAC allows the program that installs ClusterExtensions to act as the identity. known is false if
// RBAC could not be read.
func (r *Permissions) IsEnrolled(program rbac.Subject) (enrolled, known bool, err error) {
	if r.unread != nil {
		return false, false, nil
	}
	if r.identity.IsSynthetic() {
		enrolled, err = r.listers.CanImpersonate(program, r.identity)
	} else {
		enrolled, err = r.listers.CanRequestToken(program, r.identity.Account.Key())
	}
	if errors.Is(err, rbac.ErrUnreadable) {
		return false, false, nil
	}
	return enrolled, true, err
}
