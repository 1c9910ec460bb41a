package preflight

import (
	"context"
	"errors"
	"slices"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// NamespaceFilter determines which namespaces an account is allowed to get, according to RBAC or, if RBAC cannot be
// read, to SubjectAccessReviews. It implements scoped.NamespaceFilter.
type NamespaceFilter struct {
	RBAC rbac.Listers
	Ask  Reviewer
}

// Gettable implements scoped.NamespaceFilter.
func (s NamespaceFilter) Gettable(ctx context.Context, account scoped.Account, namespaces []string) ([]string, error) {
	seen, err := s.RBAC.Gettable(rbac.SubjectOf(account.Identity()), namespaces)
	err = AsAccountError(account.Identity(), err)
	if !errors.Is(err, rbac.ErrUnreadable) {
		return seen, err
	}
	report := Examine(account.Identity(), NamespaceNeeds(namespaces), func(namespace string) rbac.Permissions {
		return rbac.Permissions{Namespace: namespace, ReadErrors: []error{err}}
	})
	return (&Confirmer{Ask: s.Ask}).Confirm(ctx, "", report).WithoutFindings(namespaces), nil
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
