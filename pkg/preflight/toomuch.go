package preflight

import (
	"errors"
	"fmt"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// HoldsTooMuch makes a *scoped.Error of the error that an account holds more than is looked at: it is waited for, as for an
// account that does not exist, until a change of the account's roles or bindings ends it. Other errors stay as they are.
func HoldsTooMuch(account scoped.Account, err error) error {
	var tooMuch *rbac.LimitError
	if !errors.As(err, &tooMuch) || tooMuch.User != scoped.Username(account.Namespace, account.Name) {
		return err
	}
	where := " elsewhere" // whoever reads it may not know the namespace
	switch tooMuch.Namespace {
	case account.Namespace:
		where = ""
	case rbac.ClusterScope:
		where = " in the whole cluster"
	}
	return &scoped.Error{Reason: scoped.AccountHoldsTooMuch, Namespace: account.Namespace, Message: fmt.Sprintf(
		"the roles that are bound to ServiceAccount %s%s have more than %d verbs, API groups, resources, names and URLs: they are not looked at, and nothing "+
			"is installed as it; remove roles or bindings", account.Key(), where, rbac.MaxValues)}
}
