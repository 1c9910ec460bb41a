package preflight

import (
	"errors"
	"fmt"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// AsAccountError turns the error that an account exceeds the limit of examined permissions into a *scoped.Error. As
// with an account that does not exist, the caller waits until a change of the account's roles or bindings resolves it.
// Other errors are returned unchanged.
func AsAccountError(account scoped.Account, err error) error {
	var tooMuch *rbac.LimitError
	if !errors.As(err, &tooMuch) || tooMuch.User != scoped.Username(account.Namespace, account.Name) {
		return err
	}
	where := " in another namespace" // readers may not know the namespace
	switch tooMuch.Namespace {
	case account.Namespace:
		where = ""
	case rbac.ClusterScope:
		where = " in the whole cluster"
	}
	return &scoped.Error{Reason: scoped.AccountHoldsTooMuch, Namespace: account.Namespace, Message: fmt.Sprintf(
		"the roles that are bound to ServiceAccount %s%s have more than %d verbs, API groups, resources, names and URLs: Remit does not examine that many "+
			"and installs nothing as this account; remove roles or bindings", account.Key(), where, rbac.MaxValues)}
}
