package grants

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Source says what one account holds.
type Source interface {
	// RulesOf resolves the roles that a bundle's bindings refer to; it is an rbac.RoleRules.
	RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error)
	// Holder says what the account holds of what the needs ask for, or more.
	Holder(ctx context.Context, needs []preflight.Need) (preflight.Holder, error)
	// Notes are what a user has to know of how it was found out.
	Notes() []string
}

// Listed is a Source of RBAC objects that were read.
func Listed(listers rbac.Listers, account types.NamespacedName) Source {
	return listed{listers, rbac.ServiceAccount(account.Namespace, account.Name)}
}

type listed struct {
	rbac.Listers
	subject rbac.Subject
}

func (l listed) Holder(context.Context, []preflight.Need) (preflight.Holder, error) {
	return func(namespace string) ([]rbacv1.PolicyRule, error) { return l.Held(l.subject, namespace) }, nil
}

func (listed) Notes() []string { return nil }
