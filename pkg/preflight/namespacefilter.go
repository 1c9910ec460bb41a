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
	report := Examine(account.Identity(), NamespaceNeeds(namespaces), func(namespace string) rbac.Permissions {
		return rbac.Permissions{Namespace: namespace, ReadErrors: []error{err}}
	})
	return (&Confirmer{Ask: s.Ask}).Confirm(ctx, "", report).WithoutFindings(namespaces), nil
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
	report := Examine(account.Identity(), NamespaceNeeds(unknown), func(namespace string) rbac.Permissions { return s.RBAC.LowerBound(subject, namespace) })
	for _, name := range (&Confirmer{Ask: s.Ask}).Confirm(ctx, "", report).WithoutFindings(unknown) {
		isSeen[name] = true
	}
	return slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool { return !isSeen[name] }), nil
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
