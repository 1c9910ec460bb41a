package preflight

import (
	"context"
	"errors"
	"slices"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// NamespaceFilter determines which namespaces an account is allowed to get: by RBAC or, if it cannot be read, by
// SubjectAccessReviews. It implements scoped.NamespaceFilter.
type NamespaceFilter struct {
	RBAC rbac.Listers
	Ask  Reviewer
}

// Gettable implements scoped.NamespaceFilter.
func (s NamespaceFilter) Gettable(ctx context.Context, account scoped.Account, namespaces []string) ([]string, error) {
	subject := rbac.ServiceAccount(account.Namespace, account.Name)
	seen, err := s.RBAC.Gettable(subject, namespaces)
	err = AsAccountError(account, err)
	if !errors.Is(err, rbac.ErrUnreadable) {
		return seen, err
	}
	report := Examine(account.Key(), NamespaceNeeds(namespaces), func(namespace string) rbac.Permissions {
		return rbac.Permissions{Namespace: namespace, ReadErrors: []error{err}}
	})
	return (&Confirmer{Ask: s.Ask}).Confirm(ctx, "", report).WithoutFindings(namespaces), nil
}

// NamespaceNeeds returns the needs of an account that gets the namespaces.
func NamespaceNeeds(namespaces []string) []Need {
	out := make([]Need, 0, len(namespaces))
	for _, name := range namespaces {
		out = append(out, Need{Namespace: name, Cause: "get Namespace " + name, Rules: rbac.GetNamespaceRules(name)})
	}
	return out
}

// WithoutFindings returns, in their order, the namespaces in which nothing is missing or unknown.
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
