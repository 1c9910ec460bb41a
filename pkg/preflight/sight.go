package preflight

import (
	"context"
	"errors"
	"slices"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Sight tells which namespaces an account may get: by RBAC or, where that may not be read, by the API server's answers.
// It implements scoped.Sight.
type Sight struct {
	RBAC rbac.Listers
	Ask  Reviewer
}

// Gettable implements scoped.Sight.
func (s Sight) Gettable(ctx context.Context, account scoped.Account, namespaces []string) ([]string, error) {
	subject := rbac.ServiceAccount(account.Namespace, account.Name)
	seen, err := s.RBAC.Gettable(subject, namespaces)
	err = HoldsTooMuch(account, err)
	if !errors.Is(err, rbac.ErrUnreadable) {
		return seen, err
	}
	report := Examine(account.Key(), Gets(namespaces), func(namespace string) rbac.Permissions {
		return rbac.Permissions{Namespace: namespace, ReadErrors: []error{err}}
	})
	return (&Confirmer{Ask: s.Ask}).Confirm(ctx, "", report).Without(namespaces), nil
}

// Gets are the needs of one who gets the namespaces.
func Gets(namespaces []string) []Need {
	out := make([]Need, 0, len(namespaces))
	for _, name := range namespaces {
		out = append(out, Need{Namespace: name, Cause: "get Namespace " + name, Rules: rbac.GetNamespaceRules(name)})
	}
	return out
}

// Without returns, in their order, those of the namespaces in which nothing is missing or unknown.
func (r Report) Without(namespaces []string) []string {
	lacking := map[string]bool{}
	for _, f := range slices.Concat(r.Findings, r.Unknown) {
		lacking[f.Namespace] = true
	}
	var out []string
	for _, name := range namespaces {
		if !lacking[name] {
			out = append(out, name)
		}
	}
	return out
}
