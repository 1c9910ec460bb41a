package preflight

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/rbac"
)

// MaxIdentities is how many ServiceAccounts of one namespace are looked at for a need of Identities. Where there are
// more, they hold more than rbac.MaxValues together that the account does not, or RBAC may not be read, the account must be
// allowed to act as every ServiceAccount of the cluster.
const MaxIdentities = 200

// Identities are those who may be met: who has to cover them, what they hold, and the names of a namespace's
// ServiceAccounts.
type Identities struct {
	Account types.NamespacedName
	RBAC    rbac.Listers
	In      func(namespace string) ([]string, error)
}

// Resolve puts in the place of the needs of Identities what the ServiceAccounts of their namespaces hold and the account
// does not, once for each namespace.
func (i Identities) Resolve(needs []Need) ([]Need, error) {
	out := make([]Need, 0, len(needs))
	known, left := map[string]bool{}, rbac.MaxValues
	for _, n := range needs {
		if !n.Identities {
			out = append(out, n)
			continue
		}
		if known[n.Namespace] {
			continue
		}
		known[n.Namespace] = true
		more, err := i.resolve(n, left)
		if err != nil {
			return nil, err
		}
		for _, m := range more {
			left -= rbac.CountValues(m.Rules)
		}
		out = append(out, more...)
	}
	return out, nil
}

// resolve returns needs of at most so many values.
func (i Identities) resolve(n Need, left int) ([]Need, error) {
	names, err := i.In(n.Namespace)
	if err != nil {
		return nil, err
	}
	if len(names) > MaxIdentities {
		return []Need{anyIdentity(n)}, nil
	}
	var out []Need
	for _, name := range names {
		key := types.NamespacedName{Namespace: n.Namespace, Name: name}
		uncovered, err := i.RBAC.Uncovered(rbac.ServiceAccount(key.Namespace, key.Name), rbac.ServiceAccount(i.Account.Namespace, i.Account.Name))
		if err != nil {
			return []Need{anyIdentity(n)}, nil
		}
		everywhere, err := i.RBAC.EffectiveRules(rbac.ServiceAccount(key.Namespace, key.Name), rbac.ClusterScope)
		if err != nil {
			return []Need{anyIdentity(n)}, nil
		}
		for _, scope := range uncovered {
			if scope.Namespace == key.Namespace { // what it has everywhere is a scope of its own
				scope.Rules = rbac.Missing(everywhere, scope.Rules)
			}
			if left -= rbac.CountValues(scope.Rules); left < 0 {
				return []Need{anyIdentity(n)}, nil
			}
			if len(scope.Rules) > 0 {
				out = append(out, holds(n, key, scope))
			}
		}
	}
	return out, nil
}

// holds is the need for what a ServiceAccount holds in one scope. Only what bindings of its own namespace give it is shown: rules
// name objects, and whoever reads the report may not know what is elsewhere.
func holds(n Need, key types.NamespacedName, scope rbac.Scoped) Need {
	out := Need{
		Namespace: scope.Namespace, Rules: scope.Rules, Granted: true, Object: n.Object,
		Cause: fmt.Sprintf("%s: ServiceAccount %s holds it", n.Cause, key),
	}
	if scope.Namespace != key.Namespace {
		out.Elsewhere = true
		out.Cause = fmt.Sprintf("permissions outside of namespace %s that ServiceAccount %s has, which are not shown here (%s)", key.Namespace, key, n.Cause)
	}
	return out
}

// anyIdentity is to be allowed to act as whichever ServiceAccount there is.
func anyIdentity(n Need) Need {
	n.Identities, n.Namespace = false, rbac.ClusterScope
	n.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}}
	return n
}
