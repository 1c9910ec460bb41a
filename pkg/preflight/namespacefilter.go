package preflight

import (
	"context"
	"errors"
	"slices"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// NamespaceFilter determines which namespaces an account is allowed to get, according to RBAC or, if RBAC cannot be
// read or the account's ClusterRoles have too many rules, to SubjectAccessReviews. It implements scoped.NamespaceFilter.
type NamespaceFilter struct {
	RBAC rbac.Listers
	Ask  Reviewer
}

// Gettable implements scoped.NamespaceFilter.
func (s NamespaceFilter) Gettable(ctx context.Context, account scoped.Account, namespaces []string) ([]string, error) {
	seen, err := s.RBAC.Gettable(rbac.SubjectOf(account.Identity()), namespaces)
	err = AsAccountError(account.Identity(), err)
	if err == nil {
		return s.withNotKept(ctx, account, namespaces, seen)
	}
	if !errors.Is(err, rbac.ErrUnreadable) {
		return seen, err
	}
	return s.asked(ctx, account, namespaces, func(namespace string) rbac.Permissions {
		return rbac.Permissions{Namespace: namespace, ReadErrors: []error{err}}
	})
}

// withNotKept adds, to the namespaces that the account may get according to RBAC, those for which only the API server knows this.
func (s NamespaceFilter) withNotKept(ctx context.Context, account scoped.Account, namespaces, seen []string) ([]string, error) {
	isSeen := map[string]bool{}
	for _, name := range seen {
		isSeen[name] = true
	}
	subject := rbac.SubjectOf(account.Identity())
	unknown, err := s.RBAC.NotKept(subject, slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool { return isSeen[name] }))
	if err != nil || len(unknown) == 0 {
		return seen, err
	}
	allowed, err := s.asked(ctx, account, unknown, func(namespace string) rbac.Permissions { return s.RBAC.LowerBound(subject, namespace) })
	if err != nil {
		return nil, err
	}
	for _, name := range allowed {
		isSeen[name] = true
	}
	return slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool { return !isSeen[name] }), nil
}

// maxAsked is the number of namespaces about which the API server is asked: a group has no more targets than it lists.
const maxAsked = 2 * MaxReviews

// asked returns those of the namespaces that the account may get according to the API server. It returns an error if it does not know
// this of each of them: the roles and copies in a namespace that is no target are removed.
func (s NamespaceFilter) asked(ctx context.Context, account scoped.Account, namespaces []string, held func(string) rbac.Permissions) (allowed []string, err error) {
	identity := account.Identity()
	if len(namespaces) > maxAsked {
		return nil, AsAccountError(identity, &rbac.LimitError{User: rbac.SubjectOf(identity).User, Namespace: namespaces[maxAsked]})
	}
	for some := range slices.Chunk(namespaces, MaxReviews) {
		report := (&Confirmer{Ask: s.Ask}).Confirm(ctx, "", Examine(identity, NamespaceNeeds(some), held))
		if len(report.Unknown) > 0 {
			return nil, &scoped.UndecidedError{Err: Undecided(report)}
		}
		allowed = append(allowed, report.WithoutFindings(some)...)
	}
	return allowed, nil
}

// NamespaceNeeds returns the needs for getting each of the namespaces.
func NamespaceNeeds(namespaces []string) []Need {
	out := make([]Need, 0, len(namespaces))
	for _, name := range namespaces {
		out = append(out, Need{Namespace: name, Cause: "get Namespace " + name, Rules: rbac.GetNamespaceRules(name)})
	}
	return out
}

// WithoutFindings returns those of the namespaces for which no permission is missing or unknown, in the given order.
func (r Report) WithoutFindings(namespaces []string) []string {
	incomplete := map[string]bool{}
	for _, f := range slices.Concat(r.Findings, r.Unknown) {
		incomplete[f.Namespace] = true
	}
	var out []string
	for _, name := range namespaces {
		if !incomplete[name] {
			out = append(out, name)
		}
	}
	return out
}
