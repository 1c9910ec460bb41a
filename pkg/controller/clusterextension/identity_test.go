package clusterextension

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// noRBAC returns the listers of a cache without roles and bindings.
func noRBAC(t *testing.T) rbac.Listers {
	t.Helper()
	empty := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	require.NoError(t, empty.AddIndexers(rbac.BindingIndexers()))
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(empty), ClusterRoles: rbacv1listers.NewClusterRoleLister(empty),
		RoleBindings: rbac.NewRoleBindingLister(empty), ClusterRoleBindings: rbac.NewClusterRoleBindingLister(empty),
	}
}

// The cache may not show a new enrollment yet. A user who has just applied the enrollment must not be asked to apply it.
func TestTheAPIServerConfirmsThatAnIdentityIsNotEnrolled(t *testing.T) {
	t.Parallel()
	user, err := scoped.ExtensionIdentity("a")
	require.NoError(t, err)
	withAccount := func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "installer" }
	for name, tc := range map[string]struct {
		edits   []func(*olmv1.ClusterExtension)
		allowed []rbacv1.PolicyRule
		want    bool
	}{
		"the user, constrained":      {nil, scoped.ImpersonationRules(user, scoped.ImpersonationConstrained), true},
		"the user":                   {nil, scoped.ImpersonationRules(user, scoped.ImpersonationLegacy), true},
		"the user without its group": {nil, scoped.ImpersonationRules(user, scoped.ImpersonationLegacy)[:1], false},
		"no user":                    {nil, nil, false},
		"the account":                {[]func(*olmv1.ClusterExtension){withAccount}, rbac.RequestToken("installer"), true},
		"another account":            {[]func(*olmv1.ClusterExtension){withAccount}, rbac.RequestToken("other"), false},
	} {
		ext := extension("a", tc.edits...)
		u := givenUnit(t, interceptor.Funcs{}, ext)
		u.ControllerIdentity, u.RBAC = rbac.ServiceAccount("remit", "remit-extension"), noRBAC(t)
		u.confirmer = &preflight.Confirmer{Ask: func(_ context.Context, who rbac.Subject, _ string, atom rbacv1.PolicyRule) (bool, error) {
			require.Equal(t, u.ControllerIdentity, who)
			return slices.ContainsFunc(tc.allowed, func(rule rbacv1.PolicyRule) bool { return rbac.Line(rule) == rbac.Line(atom) }), nil
		}}
		s := u.begin(ext)
		s.identity, _, err = s.lookUp(t.Context(), s.Client)
		require.NoError(t, err)
		got, err := s.isEnrolled(t.Context())
		require.NoError(t, err)
		require.Equal(t, tc.want, got, name)
	}
}
