package installplan

import (
	"context"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Retries of failures: quickly at first, as the API server's own view of a fresh grant trails ours by
// moments, then rarely.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Minute
	// workers is how many plans are carried out at once.
	workers = 8
)

// SetupWithManager registers the controller. catalogs says, through a source of ours, that published
// content changed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, catalogs source.Source) error {
	unfinished := handler.EnqueueRequestsFromMapFunc(r.unfinished)
	return ctrl.NewControllerManagedBy(mgr).
		Named("installplan").
		For(&operatorsv1alpha1.InstallPlan{}).
		Watches(&operatorsv1.OperatorGroup{}, unfinished).
		Watches(&corev1.ServiceAccount{}, unfinished, builder.WithPredicates(r.forgetting())).
		Watches(&corev1.Namespace{}, unfinished).
		Watches(&rbacv1.Role{}, unfinished).
		Watches(&rbacv1.RoleBinding{}, unfinished).
		Watches(&rbacv1.ClusterRole{}, unfinished).
		Watches(&rbacv1.ClusterRoleBinding{}, unfinished).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, unfinished).
		WatchesRawSource(catalogs).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}

// unfinished wakes the plans that something may be in the way of. It reads the cache only; a plan for
// which nothing changed finds that out from the cache too.
func (r *Reconciler) unfinished(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.Unfinished(ctx)
}

// Unfinished lists the plans that are neither complete nor failed.
func (r *Reconciler) Unfinished(ctx context.Context) []reconcile.Request {
	list := &operatorsv1alpha1.InstallPlanList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if !finished(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// forgetting lets every event pass, and drops the token of a ServiceAccount that is gone.
func (r *Reconciler) forgetting() predicate.Predicate {
	return predicate.Funcs{DeleteFunc: func(e event.DeleteEvent) bool {
		r.Accounts.Forget(client.ObjectKeyFromObject(e.Object))
		return true
	}}
}
