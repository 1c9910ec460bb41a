package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
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
