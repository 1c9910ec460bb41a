package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/rbac"
)

// A ClusterServiceVersion may have hundreds of webhooks, each of which may make something run as any ServiceAccount.
func TestTheServiceAccountsOfANamespaceAreLookedAtOnce(t *testing.T) {
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	var asked []string
	i := Identities{Account: bounded, RBAC: rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(none), RoleBindings: rbacv1listers.NewRoleBindingLister(none),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(none), ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(none),
	}, In: func(namespace string) ([]string, error) {
		asked = append(asked, namespace)
		return []string{"default"}, nil
	}}
	var needs []Need
	for range 500 {
		needs = append(needs, Need{Namespace: "t1", Identities: true}, Need{Namespace: "t2", Identities: true}, Need{Namespace: "t1", Object: "x"})
	}
	out, err := i.Resolve(needs)
	require.NoError(t, err)
	require.Equal(t, []string{"t1", "t2"}, asked)
	require.Len(t, out, 500, "other needs stay")
}
