package preflight

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// MaxIdentities is the maximum number of ServiceAccounts in one namespace that are examined for a need with
// Identities. If there are more, if the permissions that the account is missing exceed rbac.MaxValues in total, or if
// RBAC cannot be read, the account must be allowed to act as every ServiceAccount of the cluster.
const MaxIdentities = 200

// Identities resolves needs whose field Identities is set. The identity Account must have all permissions of the
// ServiceAccounts whose names In returns for a namespace.
type Identities struct {
	Account scoped.Identity
	RBAC    rbac.Listers
	In      func(namespace string) ([]string, error)
	// Home is the namespace whose users read the report: that of the OperatorGroup, or of the ServiceAccount of a ClusterExtension. Of other
	// namespaces, the report shows only what the account may list there (docs/adr/0100).
	Home string
	// Proofs prove which bindings installs created. In other namespaces than the ServiceAccount's own, only these bindings count
	// (docs/adr/0092).
	Proofs ownerutil.Proofs
	// Tokens replaces the permissions that a ServiceAccount has and the account does not by the permission to request its tokens, which
	// is one for each ServiceAccount.
	Tokens bool
}

// Resolve replaces the needs whose field Identities is set. It returns, once for each of their namespaces, needs for
// the permissions that the namespace's ServiceAccounts have and the account does not. Other needs are returned
// unchanged.
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

// resolve returns the needs that replace n. If their rules would contain more than left values in total, it instead
// returns the need to request tokens for any ServiceAccount.
func (i Identities) resolve(n Need, left int) ([]Need, error) {
	names, err := i.In(n.Namespace)
	if err != nil {
		return nil, err
	}
	if len(names) > MaxIdentities {
		return []Need{anyIdentity(n)}, nil
	}
	var out []Need
	may := sync.OnceValue(func() view { return i.viewOf(n.Namespace) })
	for _, name := range names {
		key := types.NamespacedName{Namespace: n.Namespace, Name: name}
		uncovered, err := i.RBAC.UncoveredOf(rbac.ServiceAccount(key.Namespace, key.Name), rbac.SubjectOf(i.Account), i.reach(n.Namespace).Of(key))
		if isTooLarge(err, key) || i.Tokens && len(uncovered) > 0 {
			out = append(out, tokenNeed(n, key, may()))
			continue
		}
		if err != nil {
			return []Need{anyIdentity(n)}, nil
		}
		everywhere, err := i.RBAC.EffectiveRules(rbac.ServiceAccount(key.Namespace, key.Name), rbac.ClusterScope)
		if err != nil {
			return []Need{anyIdentity(n)}, nil
		}
		for _, scope := range uncovered {
			if scope.Namespace == key.Namespace { // cluster-wide permissions have a separate scope
				scope.Rules = rbac.Missing(everywhere, scope.Rules)
			}
			if left -= rbac.CountValues(scope.Rules); left < 0 {
				return []Need{anyIdentity(n)}, nil
			}
			if len(scope.Rules) > 0 {
				out = append(out, identityNeed(n, key, scope, may()))
			}
		}
	}
	return out, nil
}

// isTooLarge reports whether an error means that a ServiceAccount has more permissions than Remit evaluates.
func isTooLarge(err error, key types.NamespacedName) bool {
	limit, ok := errors.AsType[*rbac.LimitError](err)
	return ok && limit.User == rbac.ServiceAccount(key.Namespace, key.Name).User
}

// reach selects the bindings of the ServiceAccounts of a namespace that count.
func (i Identities) reach(namespace string) deployment.Reach {
	return deployment.Reach{RBAC: i.RBAC, Installed: func(b rbac.Binding) (ownerutil.Owner, bool) {
		if i.Proofs == nil {
			return ownerutil.Owner{}, false
		}
		return ownerutil.OwnerIn(b, namespace, time.Time{}, i.Proofs)
	}}
}

// view is what readers of the report may learn about the ServiceAccounts of a namespace: their names, and the rules of bindings there.
type view struct{ names, rules bool }

// viewOf returns what the report shows about a namespace: everything about the one whose users read it, and otherwise what the account
// may list there. The author of an install determines its targets, which may be namespaces of others.
func (i Identities) viewOf(namespace string) view {
	if namespace == i.Home {
		return view{names: true, rules: true}
	}
	mayList := func(group string, resources ...string) bool {
		in, err := i.RBAC.Covered(rbac.SubjectOf(i.Account), []string{namespace}, func(string) []rbacv1.PolicyRule {
			return []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list"}}}
		})
		return err == nil && slices.Contains(in, namespace)
	}
	return view{names: mayList("", "serviceaccounts"), rules: mayList(rbacv1.GroupName, "roles", "rolebindings")}
}

// identityNeed returns the need for the permissions of a ServiceAccount in one scope. Only rules from bindings in the
// ServiceAccount's own namespace are shown, and only if the reader may learn them: rules contain object names, and those of
// other namespaces must not be shown to readers of the report.
func identityNeed(n Need, key types.NamespacedName, scope rbac.Scoped, may view) Need {
	account := "ServiceAccount " + key.String()
	if !may.names {
		account = "a ServiceAccount of namespace " + key.Namespace
	}
	out := Need{
		Namespace: scope.Namespace, Rules: scope.Rules, Granted: true, Unenforced: n.Unenforced, Object: n.Object,
		Cause: fmt.Sprintf("%s: %s has this permission", n.Cause, account),
	}
	where := ""
	switch {
	case scope.Namespace != key.Namespace:
		where = "outside of"
	case !may.rules:
		where = "in"
	default:
		return out
	}
	out.Hidden = true
	out.Cause = fmt.Sprintf("permissions %s namespace %s that %s has, which are not shown here (%s)", where, key.Namespace, account, n.Cause)
	return out
}

// tokenNeed returns the need to request tokens for one ServiceAccount, which gives the account whatever this has. Its permissions are
// unknown because its roles have too many rules, for example because a stranger has added some to the ClusterRole view.
func tokenNeed(n Need, key types.NamespacedName, may view) Need {
	n.Identities, n.Rules, n.Alternatives, n.Hidden = false, rbac.RequestToken(key.Name), nil, !may.names
	account := "a ServiceAccount of namespace " + key.Namespace
	if may.names {
		account = "ServiceAccount " + key.String()
	}
	n.Cause = fmt.Sprintf("act as %s, whose roles have more rules than Remit evaluates (%s)", account, n.Cause)
	return n
}

// anyIdentity returns the need to request a token for any ServiceAccount of the cluster.
func anyIdentity(n Need) Need {
	n.Identities, n.Namespace, n.Rules = false, rbac.ClusterScope, rbac.RequestToken()
	return n
}
