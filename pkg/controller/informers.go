package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/rbac"
)

// affected returns a controller's requests that a change affects. before is nil for a new object, and after is nil for
// a deleted one.
type affected func(ctx context.Context, before, after client.Object) []reconcile.Request

// boundKinds returns the kinds of objects, in addition to OperatorGroups, that determine what an install may do. It
// includes RBAC kinds only if this program can read RBAC.
func boundKinds(listers rbac.Listers) []client.Object {
	kinds := []client.Object{&corev1.ServiceAccount{}, &corev1.Namespace{}}
	if !listers.Readable() {
		return kinds
	}
	return append(kinds, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{})
}

// changes returns a source that watches RBAC, ServiceAccounts and Namespaces, and enqueues the requests that a change
// affects, immediately and again after each of the delays. Objects that exist when the program starts enqueue nothing,
// because the workers start after these objects are read.
func changes(mgr ctrl.Manager, listers rbac.Listers, requests affected, delays ...time.Duration) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		return kit.OnChange(ctx, mgr.GetCache(), boundKinds(listers), func(before, after client.Object) {
			for _, req := range requests(ctx, before, after) {
				queue.Add(req)
				for _, delay := range delays {
					queue.AddAfter(req, delay)
				}
			}
		})
	})
}

// mayReadRBAC lists at most one object of each RBAC kind, and returns the error from the first list request that fails.
func mayReadRBAC(ctx context.Context, r client.Reader) error {
	for _, list := range []client.ObjectList{
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
	} {
		if err := r.List(ctx, list, client.Limit(1)); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	return nil
}

// RBACListers returns client-go listers that use the manager's informers, so that the permission checks and the watches
// share one cache. The manager starts the informers and waits until they have synced before it starts any controller.
// If this program is not allowed to read RBAC, there are no informers, and every call to a lister returns an error.
func RBACListers(ctx context.Context, mgr ctrl.Manager) (rbac.Listers, error) {
	err := mayReadRBAC(ctx, mgr.GetAPIReader())
	if apierrors.IsForbidden(err) {
		mgr.GetLogger().Info("This program is not allowed to read RBAC; using SubjectAccessReviews instead, and checking again periodically", "reason", err.Error())
		return rbac.Unreadable(err), nil
	}
	if err != nil {
		return rbac.Listers{}, err
	}
	var indexers []toolscache.Indexer
	for _, kind := range []struct {
		obj   client.Object
		index toolscache.Indexers
	}{
		{&rbacv1.Role{}, nil}, {&rbacv1.RoleBinding{}, rbac.BindingIndexers()},
		{&rbacv1.ClusterRole{}, nil}, {&rbacv1.ClusterRoleBinding{}, rbac.BindingIndexers()},
	} {
		informer, err := mgr.GetCache().GetInformer(ctx, kind.obj)
		if err != nil {
			return rbac.Listers{}, fmt.Errorf("informer for %T: %w", kind.obj, err)
		}
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return rbac.Listers{}, fmt.Errorf("informer for %T is a %T without an index", kind.obj, informer)
		}
		if err := shared.AddIndexers(kind.index); err != nil {
			return rbac.Listers{}, fmt.Errorf("add indexers for %T: %w", kind.obj, err)
		}
		indexers = append(indexers, shared.GetIndexer())
	}
	return rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(indexers[0]), RoleBindings: rbac.NewRoleBindingLister(indexers[1]),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(indexers[2]), ClusterRoleBindings: rbac.NewClusterRoleBindingLister(indexers[3]),
	}, nil
}
