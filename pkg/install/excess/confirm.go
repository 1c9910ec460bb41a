package excess

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxReviews is the maximum number of questions of one Confirm. Objects that it leaves undecided are not confirmed.
const maxReviews = 500

// Reviewer asks the API server whether a subject has the permission that an atom describes. preflight.Reviews returns
// one.
type Reviewer func(ctx context.Context, subject rbac.Subject, namespace string, atom rbacv1.PolicyRule) (bool, error)

// Confirm returns the objects for which the API server confirms that the account exceeds its permissions: it denies the
// account at least one of the missing permissions, and also the alternative. If there are more permissions than Remit
// evaluates, the denied alternative is sufficient. It returns an error if the API server
// cannot decide.
func Confirm(ctx context.Context, ask Reviewer, account rbac.Subject, objs []Object) ([]Object, error) {
	c := confirmation{ask: ask, account: account, answers: map[string]bool{}}
	var out []Object
	for _, o := range objs {
		confirmed, err := c.confirm(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("review the permissions of %s: %w", apply.Describe(o.Object), err)
		}
		if confirmed {
			out = append(out, o)
		}
	}
	return out, nil
}

// confirmation caches the answers of one Confirm, because a role and its bindings grant the same permissions.
type confirmation struct {
	ask     Reviewer
	account rbac.Subject
	answers map[string]bool
}

func (c *confirmation) confirm(ctx context.Context, o Object) (bool, error) {
	for _, atom := range rbac.Atoms([]rbacv1.PolicyRule{o.Alternative}) {
		if denied, err := c.denies(ctx, o.Scope, atom); err != nil || !denied {
			return false, err
		}
	}
	for _, rule := range o.Missing { // one at a time, because together they can be too large
		for _, atom := range rbac.Atoms([]rbacv1.PolicyRule{rule}) {
			if denied, err := c.denies(ctx, o.Scope, atom); err != nil || denied {
				return denied, err
			}
		}
	}
	return o.Unevaluated, nil
}

// denies reports whether the API server denies a permission. It returns false if there were too many questions.
func (c *confirmation) denies(ctx context.Context, scope string, atom rbacv1.PolicyRule) (bool, error) {
	key := scope + " " + rbac.Line(atom)
	if allowed, known := c.answers[key]; known {
		return !allowed, nil
	}
	if len(c.answers) >= maxReviews {
		return false, nil
	}
	allowed, err := c.ask(ctx, c.account, scope, atom)
	if err != nil {
		return false, err
	}
	c.answers[key] = allowed
	return !allowed, nil
}
