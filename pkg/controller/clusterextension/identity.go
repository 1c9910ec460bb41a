package clusterextension

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// findIdentity determines the identity from the cache. If the identity cannot be used yet, the run continues until openClients,
// so that the status also reports the permissions that the identity needs.
func findIdentity(ctx context.Context, s *run) (outcome, error) {
	identity, exists, err := s.lookUp(ctx, s.Client)
	if err != nil {
		return outcome{}, err
	}
	s.identity = identity
	s.ext.Status.Identity = &olmv1.Identity{
		Kind: olmv1.IdentityKind(identity.Subject().Kind), Namespace: identity.Subject().Namespace, Name: identity.Subject().Name,
		Groups: identity.Groups(),
	}
	if reserved := s.reserved(identity); reserved != nil {
		s.unusable = reserved
		return waiting(message.Line(reserved.Message)), nil
	}
	if !exists {
		s.unusable = notFound(identity.Account)
		return proceed(), nil
	}
	enrolled, err := s.isEnrolled(ctx)
	if err == nil && !enrolled {
		s.unusable = s.notEnrolled()
	}
	return proceed(), err
}

// reserved returns an error if the identity is one of Remit's own ServiceAccounts.
func (r *Reconciler) reserved(identity scoped.Identity) *scoped.Error {
	if identity.IsSynthetic() {
		return nil
	}
	return scoped.CheckReserved(identity.Account.Key(), r.Namespace)
}

// lookUp returns the identity that the spec selects. exists is false for a ServiceAccount that does not exist.
func (s *run) lookUp(ctx context.Context, from client.Reader) (identity scoped.Identity, exists bool, err error) {
	identity = assess.Identity(s.ext)
	if identity.IsSynthetic() {
		identity, err = scoped.ExtensionIdentity(s.ext.Name)
		return identity, true, err
	}
	sa := &corev1.ServiceAccount{}
	exists, err = apply.Read(ctx, from, identity.Account.Key(), sa)
	identity.Account.UID = sa.UID
	s.accountSince = sa.CreationTimestamp
	return identity, exists, err
}

// clientOf returns a client that acts as the identity, or a *scoped.Error if it cannot be used.
func (r *Reconciler) clientOf(ctx context.Context, identity scoped.Identity) (client.Client, error) {
	if reserved := r.reserved(identity); reserved != nil {
		return nil, reserved
	}
	if !identity.IsSynthetic() && identity.Account.UID == "" {
		return nil, notFound(identity.Account)
	}
	return r.Clients.As(ctx, identity)
}

func notFound(account scoped.Account) *scoped.Error {
	return &scoped.Error{Reason: scoped.AccountMissing, Namespace: account.Namespace, Message: fmt.Sprintf(
		"service account %q not found in namespace %q", account.Name, account.Namespace)}
}

// isEnrolled reports whether this program may act as the identity. If the cached RBAC does not allow this, the API
// server is asked, because the cache may not show a new enrollment yet and another authorizer may allow it.
func (s *run) isEnrolled(ctx context.Context) (ok bool, err error) {
	if s.identity.IsSynthetic() {
		ok, err = s.RBAC.CanImpersonate(s.ControllerIdentity, s.identity)
	} else {
		ok, err = s.RBAC.CanRequestToken(s.ControllerIdentity, s.identity.Account.Key())
	}
	if errors.Is(err, rbac.ErrUnreadable) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("determine the effective rules of %s: %w", s.ControllerIdentity.User, err)
	}
	return ok || s.isAllowed(ctx), nil
}

// isAllowed asks the API server whether this program may act as the identity.
func (s *run) isAllowed(ctx context.Context) bool {
	if !s.identity.IsSynthetic() {
		account := s.identity.Account
		return s.confirmer.Allows(ctx, s.ControllerIdentity, account.Namespace, rbac.RequestToken(account.Name))
	}
	for _, how := range []scoped.Impersonation{scoped.ImpersonationConstrained, scoped.ImpersonationLegacy} {
		if s.confirmer.Allows(ctx, s.ControllerIdentity, rbac.ClusterScope, scoped.ImpersonationRules(s.identity, how)) {
			return true
		}
	}
	return false
}
