package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// affected lists a controller's requests for which a change can make a difference. before is nil for a new object, after is
// nil for a deleted one.
type affected func(ctx context.Context, before, after client.Object) []reconcile.Request

// boundKinds returns the kinds that, together with OperatorGroups, bound an install. They include RBAC only if it can be read.
func boundKinds(listers rbac.Listers) []client.Object {
	kinds := []client.Object{&corev1.ServiceAccount{}, &corev1.Namespace{}}
	if !listers.Readable() {
		return kinds
	}
	return append(kinds, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{})
}

// changes returns a source that enqueues exactly the requests of one controller that a change of RBAC, of a
// ServiceAccount or of a Namespace affects, immediately and again after each of the delays. Objects that exist when the
// program starts enqueue nothing, because the workers start after they were read.
func changes(mgr ctrl.Manager, listers rbac.Listers, requests affected, delays ...time.Duration) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		return onChange(ctx, mgr, boundKinds(listers), func(before, after client.Object) {
			for _, req := range requests(ctx, before, after) {
				queue.Add(req)
				for _, delay := range delays {
					queue.AddAfter(req, delay)
				}
			}
		})
	})
}

// onChange calls notify for each change of an object of these kinds.
func onChange(ctx context.Context, mgr ctrl.Manager, kinds []client.Object, notify func(before, after client.Object)) error {
	for _, obj := range kinds {
		informer, err := mgr.GetCache().GetInformer(ctx, obj)
		if err != nil {
			return fmt.Errorf("informer of %T: %w", obj, err)
		}
		if _, err := informer.AddEventHandler(handlers(notify)); err != nil {
			return fmt.Errorf("informer of %T: %w", obj, err)
		}
	}
	return nil
}

func handlers(notify func(before, after client.Object)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if after := object(obj); after != nil && !initial {
				notify(nil, after)
			}
		},
		UpdateFunc: func(was, is any) {
			before, after := object(was), object(is)
			if before != nil && after != nil {
				notify(before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if before := object(obj); before != nil {
				notify(before, nil)
			}
		},
	}
}

// object returns the object of an event, and unwraps the tombstone of a deletion that the informer's watch missed.
func object(obj any) client.Object {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	o, _ := obj.(client.Object)
	return o
}

// forgetDeleted drops the tokens of ServiceAccounts that are deleted.
func forgetDeleted(ctx context.Context, mgr ctrl.Manager, accounts *scoped.Clients) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.ServiceAccount{})
	if err != nil {
		return fmt.Errorf("informer of ServiceAccounts: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if sa := object(obj); sa != nil {
			accounts.Forget(client.ObjectKeyFromObject(sa))
		}
	}})
	return err
}
