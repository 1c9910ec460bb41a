package excess

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/semaphore"
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

// kept says why objects are kept that Confirm does not return. holder is what the account is called.
func kept(holder string) string {
	return fmt.Sprintf("they are kept, because the API server allows the %s what they grant, or did not decide this with %d questions", holder, maxReviews)
}

// Confirm returns the objects for which the API server confirms that the account exceeds its permissions: it denies the
// account at least one of the missing permissions, and also the alternative. A permission that it allows only because of
// bindings that Remit has created counts as denied. If there are more permissions than Remit evaluates, in the object or in
// Roles of the account's own namespace, the denied alternative is sufficient; otherwise, a user could keep an excess by adding rules to
// them. ClusterRoles of the account do not have this effect, because others may add rules to them (docs/adr/0105): nothing is removed
// because a question was not asked. isComplete is false if there are others for which the questions were not sufficient. It returns an error if
// the API server cannot decide.
func (a Account) Confirm(ctx context.Context, ask Reviewer, subject rbac.Subject, objs []Object) (out []Object, isComplete bool, err error) {
	c := confirmation{ask: ask, account: a, subject: subject, objs: objs, answers: map[string]answer{}, omitted: map[string]map[string]origin{}}
	confirmed := make([]bool, len(objs))
	// Each object has a share of the questions. Those that remain are for the first objects for which that is not sufficient, and the order is
	// another one each time.
	left := inAnyOrder(len(objs))
	for _, isShare := range []bool{true, false} {
		var more []int
		for i, at := range left {
			if c.limit = maxReviews; isShare {
				c.limit = c.asked + (maxReviews-c.asked)/(len(left)-i)
			}
			c.isCutShort = false
			if confirmed[at], err = c.confirm(ctx, objs[at]); err != nil {
				return nil, false, fmt.Errorf("review the permissions of %s: %w", apply.Describe(objs[at].Object), err)
			}
			if c.isCutShort {
				more = append(more, at)
			}
		}
		left = more
	}
	isComplete = !slices.ContainsFunc(left, func(at int) bool { return !confirmed[at] })
	for i, o := range objs {
		if confirmed[i] {
			out = append(out, o)
		}
	}
	return out, isComplete, nil
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
	// asked is the number of questions, and limit the one at which no more are asked about the current object.
	asked, limit int
	// isCutShort is true if there were no more questions about the current object.
	isCutShort bool
	// omitted says what the account's ClusterRoles grant whose rules are not kept, by scope and by the Line of the permission.
	omitted map[string]map[string]origin
}

func (c *confirmation) confirm(ctx context.Context, o Object) (bool, error) {
	for _, atom := range rbac.Atoms([]rbacv1.PolicyRule{o.Alternative}) {
		if is, err := c.review(ctx, o.Scope, atom); err != nil || is != denied {
			c.isCutShort = is == undecided && c.asked >= c.limit
			return false, err
		}
	}
	is, err := c.missing(ctx, o)
	if err != nil || is == denied {
		return err == nil, err
	}
	return o.Unevaluated || is == undecided && c.account.isTooLarge(o.Scope), nil
}

// missing returns denied if one of the permissions that the object grants and the account is missing is denied, and otherwise undecided if
// one is undecided.
func (c *confirmation) missing(ctx context.Context, o Object) (answer, error) {
	out := allowed
	for _, i := range inAnyOrder(len(o.Missing)) { // one at a time, because together they can be too large
		for _, atom := range rbac.Atoms(o.Missing[i : i+1]) {
			is, err := c.review(ctx, o.Scope, atom)
			switch {
			case err != nil || is == denied:
				return is, err
			case is == undecided && c.asked >= c.limit:
				c.isCutShort = true
				return undecided, nil
			case is == undecided:
				out = undecided
			}
		}
	}
	return out, nil
}

// review returns what is known about a permission. It asks the API server, unless there were too many questions or a ClusterRole of the
// account whose rules are not kept grants it.
func (c *confirmation) review(ctx context.Context, scope string, atom rbacv1.PolicyRule) (answer, error) {
	key := scope + " " + rbac.Line(atom)
	if is, known := c.answers[key]; known {
		return is, nil
	}
	origin, err := c.origin(ctx, scope, atom)
	switch {
	case err != nil:
		return undecided, err
	case origin == itsOwn:
		c.answers[key] = allowed
		return allowed, nil
	case c.asked >= c.limit:
		return undecided, nil
	}
	c.asked++
	ok, err := c.ask(ctx, c.subject, scope, atom)
	if err != nil {
		return undecided, err
	}
	is := denied
	switch {
	case ok && origin == unknown:
		is = undecided
	case ok && origin == another:
		is = allowed
	}
	c.answers[key] = is
	return is, nil
}

// origin is where the account has a permission from, if the API server allows it.
type origin int

const (
	// unknown means that the ClusterRoles that are not kept were not examined for it.
	unknown origin = iota
	// itsOwn is a role that the account has without Remit, and ofRemit one that Remit has bound.
	itsOwn
	ofRemit
	// another is another authorizer.
	another
)

// origin returns where the account has a permission from. The ClusterRoles whose rules are not kept are read from the API server;
// otherwise, whoever adds rules to one of them could keep an excess. So that users of a namespace cannot keep one by binding more Roles
// than Remit evaluates, a permission then counts as bound by Remit unless the account has it in the whole cluster. The error says that RBAC cannot
// be read.
func (c *confirmation) origin(ctx context.Context, scope string, atom rbacv1.PolicyRule) (origin, error) {
	rules := []rbacv1.PolicyRule{atom}
	if c.account.Held == nil {
		return another, nil
	}
	held, granted := c.account.Held(scope), c.account.Granted(scope)
	unread := errors.Join(held.ReadErrors...)
	_, isTooLarge := errors.AsType[*rbac.LimitError](unread)
	switch {
	case unread != nil && !isTooLarge:
		return unknown, fmt.Errorf("read the permissions of the account: %w", unread)
	case isTooLarge && c.account.Granted(rbac.ClusterScope).Set().Covers(rules):
		return another, nil
	case granted.Set().Covers(rules):
		return another, nil
	}
	isOwed := held.Partial || isTooLarge || held.Set().Covers(rules)
	if len(held.NotKept) > 0 || len(granted.NotKept) > 0 {
		return c.omittedOrigin(ctx, scope, atom, isOwed)
	}
	if isOwed {
		return ofRemit, nil
	}
	return another, nil
}

// omittedOrigin is origin for an account with ClusterRoles whose rules are not kept. isOwed is true if Remit has bound another role with
// the permission.
func (c *confirmation) omittedOrigin(ctx context.Context, scope string, atom rbacv1.PolicyRule, isOwed bool) (origin, error) {
	if c.omitted[scope] == nil {
		var err error
		if c.omitted[scope], err = c.readOmitted(ctx, scope); err != nil {
			return unknown, err
		}
	}
	is, examined := c.omitted[scope][rbac.Line(atom)]
	switch {
	case !examined:
		return unknown, nil
	case is == another && isOwed:
		return ofRemit, nil
	}
	return is, nil
}

const (
	// maxOmitted is the number of ClusterRoles whose rules are not kept that are read for one scope, of the account and of Remit each.
	// Others of the account count as if they granted nothing, and others of Remit as if they granted everything.
	maxOmitted = 10
	// maxExamined is the number of permissions for which they are read. Others are undecided.
	maxExamined = 20_000
)

// reading allows one ClusterRole at a time to be in memory whose rules are not kept. Each is up to 1.5 MiB of JSON.
var reading = semaphore.NewWeighted(1)

// readOmitted returns, for each permission that the objects grant in a scope, whether the account's own ClusterRoles grant it or only those
// that Remit has bound. If there are more of these than are read, they may grant everything.
func (c *confirmation) readOmitted(ctx context.Context, scope string) (map[string]origin, error) {
	own := c.account.Granted(scope).NotKept
	bound := slices.DeleteFunc(slices.Clone(c.account.Held(scope).NotKept), func(role string) bool { return slices.Contains(own, role) })
	rest := another
	if len(bound) > maxOmitted {
		rest = ofRemit
	}
	origins, atoms := map[string]origin{}, c.atomsIn(scope)
	for _, atom := range atoms {
		origins[rbac.Line(atom)] = rest
	}
	for _, of := range []struct {
		roles []string
		is    origin
	}{{bound, ofRemit}, {own, itsOwn}} {
		for _, role := range of.roles[:min(len(of.roles), maxOmitted)] {
			if err := c.readRole(ctx, role, scope, atoms, origins, of.is); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("get ClusterRole %q, whose rules are not kept: %w", role, err)
			}
		}
	}
	return origins, nil
}

// atomsIn returns different permissions that the objects grant in a scope, of each object as many as its share of maxExamined.
func (c *confirmation) atomsIn(scope string) (out []rbacv1.PolicyRule) {
	seen := map[string]bool{}
	for _, o := range c.objs {
		if o.Scope != scope {
			continue
		}
		left := maxExamined / len(c.objs)
		for _, rule := range append([]rbacv1.PolicyRule{o.Alternative}, o.Missing...) {
			for _, atom := range rbac.Atoms([]rbacv1.PolicyRule{rule}) {
				if line := rbac.Line(atom); left > 0 && !seen[line] {
					seen[line], out = true, append(out, atom)
					left--
				}
			}
		}
	}
	return out
}

// readRole sets the origin of the permissions that a ClusterRole grants.
func (c *confirmation) readRole(ctx context.Context, role, scope string, atoms []rbacv1.PolicyRule, origins map[string]origin, is origin) error {
	if err := reading.Acquire(ctx, 1); err != nil {
		return err //nolint:wrapcheck // the caller wraps it
	}
	defer reading.Release(1)
	rules, err := c.account.RulesOf(rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindClusterRole, Name: role}, scope)
	if err != nil {
		return err
	}
	set := rbac.NewSet(rules)
	for _, atom := range atoms {
		if set.Covers([]rbacv1.PolicyRule{atom}) {
			origins[rbac.Line(atom)] = is
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
