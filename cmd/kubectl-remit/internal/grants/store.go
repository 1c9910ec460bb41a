package grants

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/rbac"
)

// store keeps RBAC objects in indexers, as informers do, for the listers of package rbac.
type store struct {
	roles, bindings, clusterRoles, clusterBindings cache.Indexer
}

func newStore() store {
	indexer := func(more cache.Indexers) cache.Indexer {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		for name, f := range more {
			indexers[name] = f
		}
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
	}
	return store{
		roles: indexer(nil), bindings: indexer(rbac.BindingIndexers()),
		clusterRoles: indexer(nil), clusterBindings: indexer(rbac.BindingIndexers()),
	}
}

func (s store) listers() rbac.Listers {
	return rbac.Listers{
		Roles:               rbacv1listers.NewRoleLister(s.roles),
		RoleBindings:        rbac.NewRoleBindingLister(s.bindings),
		ClusterRoles:        rbacv1listers.NewClusterRoleLister(s.clusterRoles),
		ClusterRoleBindings: rbac.NewClusterRoleBindingLister(s.clusterBindings),
	}
}

// indexerFor returns the indexer for the object's kind.
func (s store) indexerFor(obj runtime.Object) (cache.Indexer, error) {
	switch obj.(type) {
	case *rbacv1.Role:
		return s.roles, nil
	case *rbacv1.RoleBinding:
		return s.bindings, nil
	case *rbacv1.ClusterRole:
		return s.clusterRoles, nil
	case *rbacv1.ClusterRoleBinding:
		return s.clusterBindings, nil
	}
	return nil, fmt.Errorf("%T is not an RBAC object", obj)
}
