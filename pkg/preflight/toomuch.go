package preflight

import (
	"errors"
	"fmt"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// AsAccountError converts a *rbac.LimitError about the identity into a *scoped.Error. The caller then waits until the
// identity's roles or bindings change, as it waits for an account that does not exist. Other errors are returned
// unchanged.
func AsAccountError(identity scoped.Identity, err error) error {
	var tooMuch *rbac.LimitError
	if !errors.As(err, &tooMuch) || tooMuch.User != identity.Username() {
		return err
	}
	home := identity.Account.Namespace
	where := " in another namespace" // readers of the message may not be allowed to see the namespace's name
	switch {
	case tooMuch.Namespace == rbac.ClusterScope:
		where = " cluster-wide"
	case tooMuch.Namespace == home:
		where = ""
	case identity.IsSynthetic():
		where = " in a namespace"
	}
	return &scoped.Error{Reason: scoped.AccountHoldsTooMuch, Namespace: home, Message: fmt.Sprintf(
		"the roles bound to %s%s have more than the supported maximum of %d verbs, API groups, resources, names and URLs, or one of them has more than %d different rules; "+
			"Remit installs nothing as this %s until roles or bindings are removed", identity, where, rbac.MaxValues, rbac.MaxRoleRules, identity.Subject().Kind)}
}
