package warrant

import (
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operation is a kind of write that Remit performs because of a ClusterServiceVersion.
type Operation string

// Operations of the csv controller.
const (
	// Prepare creates what the requirement check needs: the operator's ServiceAccounts and their roles.
	Prepare Operation = "prepare"
	// Install writes Deployments, Services, certificates, webhooks and APIs.
	Install Operation = "install"
	// Renew replaces the certificates of an unchanged, running install.
	Renew Operation = "renew the certificates"
	// Retire removes what earlier versions left behind. It is allowed once this version is running.
	Retire Operation = "remove objects of earlier versions"
	// Publish writes the ClusterRoles of the provided APIs. It is allowed once this version is running.
	Publish Operation = "publish the provided APIs"
	// Shrink removes roles and bindings that exceed the account, and the rules of a Role whose bindings were not confirmed.
	Shrink Operation = "remove permissions that exceed the account"
	// Narrow removes from live webhooks what the account does not permit them to intercept.
	Narrow Operation = "narrow webhooks that exceed the account"
	// CleanUp removes the objects of a ClusterServiceVersion that is being removed.
	CleanUp Operation = "clean up"
)

// Findings are the results of one reconcile of a ClusterServiceVersion, for the spec that is to be installed. They
// must not be derived from a status, label or annotation. The zero value allows only Prepare.
type Findings struct {
	// Ineligible is the reason why the ClusterServiceVersion must not be installed by anyone, or nil. The reason may be
	// its content, the OperatorGroup, a version that replaces it, or another owner of one of its APIs.
	Ineligible error
	// GroupDeleted is not nil if the OperatorGroup is being deleted. Then, only removals are allowed.
	GroupDeleted error
	// Excess lists the permissions that the account neither has nor is allowed to grant.
	Excess error
	// Exceeds is true if the API server has confirmed that the account is missing permissions of live roles and bindings of
	// the operator, and their grace period is over.
	Exceeds bool
	// Unconfirmed is true if a Role has its rules although its bindings could not be confirmed, and the account may not remove them.
	Unconfirmed bool
	// Intercepts is true if the API server has confirmed that a live webhook intercepts what the account does not permit.
	Intercepts bool
	// Prepared is the error from creating the operator's ServiceAccounts, roles or certificates.
	Prepared error
	// Unsynced is true if the cache does not contain all objects that were just written.
	Unsynced bool
	// Evaluated is true if requirements and identities were evaluated. Unmet is true if a requirement is not met. Refused
	// names the Deployments whose ServiceAccounts have more permissions than the account.
	Evaluated bool
	Unmet     bool
	Refused   error
	// Same is true if the Deployments, except for their certificates, are still as they were written from this spec. Ready
	// is true if they are also available.
	Same, Ready bool
	// Obsolete is true if the ClusterServiceVersion or its namespace is being deleted, or if a running version has
	// replaced the ClusterServiceVersion.
	Obsolete bool
}

// Err returns the reason why an operation is not allowed, or nil.
func (f Findings) Err(d Operation) error {
	switch d {
	case Prepare:
		return f.prepare()
	case Install:
		return f.install()
	case Renew:
		return f.renew()
	case Retire:
		return f.ready(nil)
	case Publish:
		return f.ready(f.GroupDeleted)
	case CleanUp:
		if f.Obsolete {
			return nil
		}
		return errors.New("the ClusterServiceVersion is not being removed")
	}
	return f.shrink(d)
}

// shrink returns the reason why roles, bindings or parts of webhooks may not be removed from a ClusterServiceVersion that
// is not being removed itself, or nil.
func (f Findings) shrink(d Operation) error {
	switch {
	case d != Shrink && d != Narrow:
		return errors.New("unknown operation")
	case d == Shrink && !f.Exceeds && !f.Unconfirmed:
		return errors.New("the operator does not exceed its account, or its grace period is not over")
	case d == Narrow && !f.Intercepts:
		return errors.New("no webhook is known to exceed the account")
	}
	return nil
}

// renew returns the reason why certificates may not be renewed, or nil. What is installed may no longer be installable.
func (f Findings) renew() error {
	if f.Ineligible == nil && f.GroupDeleted == nil && f.Evaluated && f.Same {
		return nil
	}
	return f.install()
}

// ready returns the reason why an operation that needs a running operator is not allowed, or nil. barred is another reason, or nil.
func (f Findings) ready(barred error) error {
	err := errors.Join(f.Ineligible, barred)
	if !f.Evaluated || !f.Ready {
		err = errors.Join(err, errors.New("the Deployments of the ClusterServiceVersion are not ready"))
	}
	return err
}

func (f Findings) prepare() error { return errors.Join(f.Ineligible, f.GroupDeleted, f.Excess) }

func (f Findings) install() error {
	err := errors.Join(f.prepare(), f.Prepared, f.Refused)
	switch {
	case err != nil:
		return err
	case !f.Evaluated:
		return errors.New("the requirements of the ClusterServiceVersion were not evaluated")
	case f.Unmet:
		return errors.New("a requirement is not met")
	case f.Unsynced:
		return errors.New("objects that were just written are not in the cache yet")
	}
	return nil
}

// Account guards the client that is authenticated as an account. The zero value means that there is no account.
type Account struct{ client client.Client }

// Of returns an Account that guards the client.
func Of(c client.Client) Account { return Account{client: c} }

// Known reports whether there is an account.
func (a Account) Known() bool { return a.client != nil }

// For returns the client for an operation, or an error if the findings do not allow it.
func (a Account) For(d Operation, f Findings) (client.Client, error) {
	if a.client == nil {
		return nil, fmt.Errorf("not allowed to %s: there is no account to act as", d)
	}
	if err := f.Err(d); err != nil {
		return nil, fmt.Errorf("not allowed to %s: %w", d, err)
	}
	return a.client, nil
}

// Dry returns a client that only sends dry-run requests.
func (a Account) Dry() client.Client { return client.NewDryRunClient(a.client) }
