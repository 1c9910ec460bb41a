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

// concerned names those of a controller whose last look at the cluster may come out differently after a
// change. before is nil for a new object, after for one that is gone.
type concerned func(ctx context.Context, before, after client.Object) []reconcile.Request

// worldOf are the kinds that the bound of an install is made of, besides OperatorGroups; RBAC only where it
// may be read.
func worldOf(listers rbac.Listers) []client.Object {
	kinds := []client.Object{&corev1.ServiceAccount{}, &corev1.Namespace{}}
	if !listers.Readable() {
		return kinds
	}
	return append(kinds, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{})
}

// changes is a source that wakes, of one controller, exactly those whom a change of the RBAC, of a
// ServiceAccount or of a Namespace concerns, and again after each of the delays. What is there when the
// program starts wakes nobody: the workers start after it was read.
func changes(mgr ctrl.Manager, listers rbac.Listers, whom concerned, again ...time.Duration) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		return onChange(ctx, mgr, worldOf(listers), func(before, after client.Object) {
			for _, req := range whom(ctx, before, after) {
				queue.Add(req)
				for _, delay := range again {
					queue.AddAfter(req, delay)
				}
			}
		})
	})
}

// onChange tells of changes of objects of these kinds.
func onChange(ctx context.Context, mgr ctrl.Manager, kinds []client.Object, tell func(before, after client.Object)) error {
	for _, obj := range kinds {
		informer, err := mgr.GetCache().GetInformer(ctx, obj)
		if err != nil {
			return fmt.Errorf("informer of %T: %w", obj, err)
		}
		if _, err := informer.AddEventHandler(handlers(tell)); err != nil {
			return fmt.Errorf("informer of %T: %w", obj, err)
		}
	}
	return nil
}

func handlers(wake func(before, after client.Object)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if after := object(obj); after != nil && !initial {
				wake(nil, after)
			}
		},
		UpdateFunc: func(was, is any) {
			before, after := object(was), object(is)
			if before != nil && after != nil {
				wake(before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if before := object(obj); before != nil {
				wake(before, nil)
			}
		},
	}
}

// object unwraps what an informer found gone when it listed again.
func object(obj any) client.Object {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	o, _ := obj.(client.Object)
	return o
}

// forgetting drops the tokens of ServiceAccounts that are gone.
func forgetting(ctx context.Context, mgr ctrl.Manager, accounts *scoped.Clients) error {
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
