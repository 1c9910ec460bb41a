package warrant

import (
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operation is a kind of write that follows from a ClusterServiceVersion.
type Operation string

// The operations.
const (
	// Prepare creates what the requirement check needs: the operator's ServiceAccounts and their roles.
	Prepare Operation = "prepare"
	// Install writes what runs or is called: Deployments, Services, certificates, webhooks, APIs.
	Install Operation = "install"
	// Renew replaces the certificates of an unchanged, running install.
	Renew Operation = "renew the certificates"
	// Retire removes what earlier versions left behind, once this version runs.
	Retire Operation = "remove what earlier versions have left"
	// CleanUp removes what belongs to a ClusterServiceVersion that is being removed.
	CleanUp Operation = "remove what is left"
)

// Findings are the results of one reconcile of a ClusterServiceVersion, for the spec from which the write follows.
// They must not be derived from a status, label or annotation. The zero value allows only Prepare.
type Findings struct {
	// Ineligible is the reason that it may not run at all, regardless of who installs it: its content, the OperatorGroup, a
	// version that replaces it, or another owner of its API.
	Ineligible error
	// Excess lists the permissions that the account neither has nor may grant.
	Excess error
	// Prepared is the reason that its ServiceAccounts, roles or certificates could not be created.
	Prepared error
	// Unsynced is true if some of them were just written and the cache does not show them yet.
	Unsynced bool
	// Evaluated is true if requirements and identities were evaluated. Unmet is true if a requirement is missing, and
	// Refused names Deployments whose identities or permissions exceed the account.
	Evaluated bool
	Unmet     bool
	Refused   error
	// Same is true if its Deployments, apart from certificates, are as written from this spec. Ready is true if they
	// are also available.
	Same, Ready bool
	// Obsolete is true if it or its namespace is being deleted, or if a running version has replaced it.
	Obsolete bool
}

// Err returns the reason that an operation is not allowed, or nil.
func (f Findings) Err(d Operation) error {
	switch d {
	case Prepare:
		return f.prepare()
	case Install:
		return f.install()
	case Renew:
		if f.Ineligible == nil && f.Evaluated && f.Same {
			return nil
		}
		return f.install()
	case Retire:
		if f.Ineligible == nil && f.Evaluated && f.Ready {
			return nil
		}
		return errors.Join(f.Ineligible, errors.New("its Deployments are not ready"))
	case CleanUp:
		if f.Obsolete {
			return nil
		}
		return errors.New("it is not being removed")
	}
	return errors.New("unknown operation")
}

func (f Findings) prepare() error { return errors.Join(f.Ineligible, f.Excess) }

func (f Findings) install() error {
	err := errors.Join(f.prepare(), f.Prepared, f.Refused)
	switch {
	case err != nil:
		return err
	case !f.Evaluated:
		return errors.New("its requirements were not evaluated")
	case f.Unmet:
		return errors.New("a requirement is missing")
	case f.Unsynced:
		return errors.New("objects that were just written are not in the cache yet")
	}
	return nil
}

// Account is an account to act as. The zero value is no account.
type Account struct{ client client.Client }

// Of returns an Account that guards the client.
func Of(c client.Client) Account { return Account{client: c} }

// Known reports whether there is an account.
func (a Account) Known() bool { return a.client != nil }

// For returns the client for an operation, or an error if the findings do not allow it.
func (a Account) For(d Operation, f Findings) (client.Client, error) {
	if a.client == nil {
		return nil, fmt.Errorf("may not %s: there is no account to act as", d)
	}
	if err := f.Err(d); err != nil {
		return nil, fmt.Errorf("may not %s: %w", d, err)
	}
	return a.client, nil
}

// Dry returns a client that only sends dry-run requests.
func (a Account) Dry() client.Client { return client.NewDryRunClient(a.client) }
