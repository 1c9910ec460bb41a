package warrant

import (
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deed is a kind of write that follows from a ClusterServiceVersion.
type Deed string

// Deeds.
const (
	// Prepare makes what the requirements are looked at with: the operator's ServiceAccounts and their roles.
	Prepare Deed = "prepare"
	// Install writes what runs or is called: Deployments, Services, certificates, webhooks, APIs.
	Install Deed = "install"
	// Renew replaces certificates of what runs already, just as the ClusterServiceVersion has it.
	Renew Deed = "renew the certificates"
	// Tidy removes what earlier versions have left behind, once this one runs.
	Tidy Deed = "remove what earlier versions have left"
	// Bury removes what belongs to a ClusterServiceVersion that goes.
	Bury Deed = "remove what is left"
)

// Findings are what one look at a ClusterServiceVersion has found, on the spec that the write follows from.
// Nothing in them may come from a status, label or annotation. The zero value allows nothing but to prepare.
type Findings struct {
	// Unfit says why it may not run here at all, whoever installs it: its content, the OperatorGroup, a version that
	// replaces it, somebody else who serves its API.
	Unfit error
	// Excess are permissions that the account neither holds nor may grant.
	Excess error
	// Prepared says why its ServiceAccounts, roles or certificates could not be made.
	Prepared error
	// Settling says that some of them were just written, and are not seen yet.
	Settling bool
	// Judged says that the requirements and identities were looked at; Unmet that one is missing, and Refused
	// which of its Deployments' identities or rights the account does not cover.
	Judged  bool
	Unmet   bool
	Refused error
	// Same says that its Deployments are, apart from certificates, what was written from this very spec, and
	// Ready that they are available, too.
	Same, Ready bool
	// Goes says that it is being deleted, its namespace is, or one that runs has taken its place.
	Goes bool
}

// Err says why a deed is not allowed; nil where it is.
func (f Findings) Err(d Deed) error {
	switch d {
	case Prepare:
		return f.prepare()
	case Install:
		return f.install()
	case Renew:
		if f.Unfit == nil && f.Judged && f.Same {
			return nil
		}
		return f.install()
	case Tidy:
		if f.Unfit == nil && f.Judged && f.Ready {
			return nil
		}
		return errors.Join(f.Unfit, errors.New("its Deployments are not ready"))
	case Bury:
		if f.Goes {
			return nil
		}
		return errors.New("it stays")
	}
	return errors.New("nobody knows what that is")
}

func (f Findings) prepare() error { return errors.Join(f.Unfit, f.Excess) }

func (f Findings) install() error {
	err := errors.Join(f.prepare(), f.Prepared, f.Refused)
	switch {
	case err != nil:
		return err
	case !f.Judged:
		return errors.New("its requirements were not looked at")
	case f.Unmet:
		return errors.New("a requirement is missing")
	case f.Settling:
		return errors.New("what was just written is not seen yet")
	}
	return nil
}

// BarredError says that a deed is not allowed by what was found.
type BarredError struct {
	Deed Deed
	Why  error
}

func (e *BarredError) Error() string { return fmt.Sprintf("may not %s: %v", e.Deed, e.Why) }

// Unwrap is why.
func (e *BarredError) Unwrap() error { return e.Why }

// Account is one that may be acted as. The zero value is nobody.
type Account struct{ client client.Client }

// Of takes the client of an account into keeping.
func Of(c client.Client) Account { return Account{client: c} }

// Known says whether there is an account.
func (a Account) Known() bool { return a.client != nil }

// For gives out the client for a deed, or a *BarredError.
func (a Account) For(d Deed, f Findings) (client.Client, error) {
	if a.client == nil {
		return nil, &BarredError{Deed: d, Why: errors.New("there is no account to act as")}
	}
	if err := f.Err(d); err != nil {
		return nil, &BarredError{Deed: d, Why: err}
	}
	return a.client, nil
}

// Dry gives out a client that writes nothing.
func (a Account) Dry() client.Client { return client.NewDryRunClient(a.client) }
