package excess

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxReviews is the maximum number of questions of one Confirm. Objects that it leaves undecided are not confirmed.
const maxReviews = 500

// Reviewer asks the API server whether a subject has the permission that an atom describes. preflight.Reviews returns
// one.
type Reviewer func(ctx context.Context, subject rbac.Subject, namespace string, atom rbacv1.PolicyRule) (bool, error)

// Kept says why objects are kept that Confirm does not return. holder is what the account is called.
func Kept(holder string) string {
	return fmt.Sprintf("they are kept, because the API server allows the %s what they grant, or did not decide this with %d questions", holder, maxReviews)
}

// Confirm returns the objects for which the API server confirms that the account exceeds its permissions: it denies the
// account at least one of the missing permissions, and also the alternative. A permission that it allows only because of
// bindings that Remit has created counts as denied. If there are more permissions than Remit evaluates, in the object or in
// Roles of the account's own namespace, the denied alternative is sufficient; otherwise, a user could keep an excess by adding rules to
// them. ClusterRoles of the account do not have this effect, because others may add rules to them (docs/adr/0105): nothing is removed
// because a question was not asked. It returns an error if the API server cannot decide.
func (a Account) Confirm(ctx context.Context, ask Reviewer, subject rbac.Subject, objs []Object) ([]Object, error) {
	c := confirmation{ask: ask, account: a, subject: subject, objs: objs, answers: map[string]answer{}, omitted: map[string]map[string][]string{}}
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

// answer is what is known about a permission of the account. It is undecided if there were too many questions.
type answer int

const (
	undecided answer = iota
	allowed
	denied
)

// confirmation caches the answers of one Confirm, because a role and its bindings grant the same permissions.
type confirmation struct {
	ask     Reviewer
	account Account
	subject rbac.Subject
	objs    []Object
	answers map[string]answer
	// omitted contains the names of the account's ClusterRoles whose rules are not kept and that grant a permission, by scope and by the
	// Line of the permission.
	omitted map[string]map[string][]string
}

func (c *confirmation) confirm(ctx context.Context, o Object) (bool, error) {
	for _, atom := range rbac.Atoms([]rbacv1.PolicyRule{o.Alternative}) {
		if is, err := c.review(ctx, o.Scope, atom); err != nil || is != denied {
			return false, err
		}
	}
	for _, rule := range o.Missing { // one at a time, because together they can be too large
		for _, atom := range rbac.Atoms([]rbacv1.PolicyRule{rule}) {
			is, err := c.review(ctx, o.Scope, atom)
			switch {
			case err != nil:
				return false, err
			case is == denied:
				return true, nil
			case is == undecided:
				return o.Unevaluated || c.account.isTooLarge(o.Scope), nil
			}
		}
	}
	return o.Unevaluated, nil
}

// review asks the API server about a permission, unless there were too many questions.
func (c *confirmation) review(ctx context.Context, scope string, atom rbacv1.PolicyRule) (answer, error) {
	key := scope + " " + rbac.Line(atom)
	if is, known := c.answers[key]; known {
		return is, nil
	}
	if len(c.answers) >= maxReviews {
		return undecided, nil
	}
	ok, err := c.ask(ctx, c.subject, scope, atom)
	if err != nil {
		return undecided, err
	}
	is := denied
	if ok {
		if is, err = c.origin(scope, atom); err != nil {
			return undecided, err
		}
	}
	c.answers[key] = is
	return is, nil
}

// origin returns denied for a permission that the account has only through bindings that Remit has created. The ClusterRoles whose rules
// are not kept are read from the API server: an excess must not justify itself because somebody has added rules to one of them. Users
// of a namespace who bind Roles there until they are more than Remit evaluates must not achieve that either.
func (c *confirmation) origin(scope string, atom rbacv1.PolicyRule) (answer, error) {
	rules := []rbacv1.PolicyRule{atom}
	if c.account.Held == nil {
		return allowed, nil
	}
	held, granted := c.account.Held(scope), c.account.Granted(scope)
	if granted.Set().Covers(rules) {
		return allowed, nil
	}
	isOwed := held.Partial || len(held.ReadErrors) > 0 || held.Set().Covers(rules)
	if len(held.NotKept) == 0 && len(granted.NotKept) == 0 {
		if isOwed {
			return denied, nil
		}
		return allowed, nil // by another authorizer
	}
	if c.omitted[scope] == nil {
		var err error
		if c.omitted[scope], err = c.readOmitted(scope, slices.Concat(granted.NotKept, held.NotKept)); err != nil {
			return undecided, err
		}
	}
	grants, examined := c.omitted[scope][rbac.Line(atom)]
	has := func(role string) bool { return slices.Contains(grants, role) }
	switch {
	case !examined:
		return undecided, nil
	case slices.ContainsFunc(granted.NotKept, has):
		return allowed, nil
	case isOwed, slices.ContainsFunc(held.NotKept, has):
		return denied, nil
	}
	return allowed, nil
}

const (
	// maxOmitted is the number of ClusterRoles whose rules are not kept that are read for one scope. Others count as if they granted
	// nothing.
	maxOmitted = 10
	// maxExamined is the number of permissions for which they are read. Others are undecided.
	maxExamined = 20_000
)

// reading allows one ClusterRole at a time to be in memory whose rules are not kept. Each is up to 1.5 MiB of JSON.
var reading sync.Mutex

// readOmitted returns which of the ClusterRoles grant each permission that the objects grant in a scope.
func (c *confirmation) readOmitted(scope string, roles []string) (map[string][]string, error) {
	slices.Sort(roles)
	roles = slices.Compact(roles)
	grants, atoms := map[string][]string{}, []rbacv1.PolicyRule{}
	for _, o := range c.objs {
		if o.Scope != scope {
			continue
		}
		for _, rule := range append(slices.Clone(o.Missing), o.Alternative) {
			for _, atom := range rbac.Atoms([]rbacv1.PolicyRule{rule}) {
				line := rbac.Line(atom)
				if _, known := grants[line]; !known && len(atoms) < maxExamined {
					grants[line], atoms = nil, append(atoms, atom)
				}
			}
		}
	}
	for _, role := range roles[:min(len(roles), maxOmitted)] {
		if err := c.readRole(role, scope, atoms, grants); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get ClusterRole %q, whose rules are not kept: %w", role, err)
		}
	}
	return grants, nil
}

func (c *confirmation) readRole(role, scope string, atoms []rbacv1.PolicyRule, grants map[string][]string) error {
	reading.Lock()
	defer reading.Unlock()
	rules, err := c.account.RulesOf(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindClusterRole, Name: role}, scope)
	if err != nil {
		return err
	}
	set := rbac.NewSet(rules)
	for _, atom := range atoms {
		if set.Covers([]rbacv1.PolicyRule{atom}) {
			line := rbac.Line(atom)
			grants[line] = append(grants[line], role)
		}
	}
	return nil
}

// isTooLarge reports whether Roles of the account in a scope, without those that Remit has bound, exceed what Remit reads. The error
// is not about ClusterRoles, which are omitted instead.
func (a Account) isTooLarge(scope string) bool {
	if a.Granted == nil {
		return false
	}
	_, tooLarge := errors.AsType[*rbac.LimitError](errors.Join(a.Granted(scope).ReadErrors...))
	return tooLarge
}
