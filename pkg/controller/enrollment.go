package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Enrollment determines which of Remit's programs an account is not enrolled for. Accounts are enrolled through RBAC
// (security model, rule 5), so the enrollment can be read from the cache without a request or a token.
type Enrollment struct {
	// own is the user that this program runs as. programs contains the users that Missing checks.
	own      rbac.Subject
	programs []rbac.Subject
	// ahead is how far the API server's clock is ahead of the local clock, accurate to about a second.
	ahead time.Duration
}

// NewEnrollment asks the API server once which user this program runs as. If this user is a ServiceAccount, Missing
// checks the ServiceAccounts of both catalog and olm, so that it reports a partial enrollment. Otherwise, it checks only
// this user.
func NewEnrollment(ctx context.Context, c client.Client) (*Enrollment, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("determine the user that this program runs as: %w", err)
	}
	user := review.Status.UserInfo
	out := &Enrollment{own: rbac.Subject{User: user.Username, Groups: user.Groups}, programs: programs(user)}
	if !review.CreationTimestamp.IsZero() {
		out.ahead = time.Until(review.CreationTimestamp.Time)
	}
	return out, nil
}

func programs(user authenticationv1.UserInfo) []rbac.Subject {
	namespace, _, err := serviceaccount.SplitUsername(user.Username)
	if err != nil {
		return []rbac.Subject{{User: user.Username, Groups: user.Groups}}
	}
	return []rbac.Subject{
		rbac.ServiceAccount(namespace, names.ServiceAccountCatalog),
		rbac.ServiceAccount(namespace, names.ServiceAccountOLM),
	}
}

// Missing returns the users that are not allowed to request the account's token, in a fixed order.
func (e *Enrollment) Missing(l rbac.Listers, account scoped.Account) ([]string, error) {
	var missing []string
	for _, program := range e.programs {
		ok, err := canRequestToken(l, program, account)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing = append(missing, program.User)
		}
	}
	return missing, nil
}

// Own returns a *scoped.Error if this program is not allowed to request the account's token.
func (e *Enrollment) Own(l rbac.Listers, account scoped.Account) error {
	ok, err := canRequestToken(l, e.own, account)
	if err == nil && !ok {
		return scoped.NotEnrolled(account)
	}
	return err
}

func canRequestToken(l rbac.Listers, program rbac.Subject, account scoped.Account) (bool, error) {
	ok, err := l.CanRequestToken(program, account.Key())
	if errors.Is(err, rbac.ErrUnreadable) {
		return true, nil // without RBAC, only the API server can decide: it authorizes each token request
	}
	if err != nil {
		return false, fmt.Errorf("determine the effective rules of %s: %w", program.User, err)
	}
	return ok, nil
}
