package installplan

import (
	"context"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/workqueue"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
)

// Delays between retries of failures: short at first, because the API server's authorizer may see a new grant moments later
// than this program, then longer.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Minute
	// workers is the number of plans that are executed concurrently.
	workers = 12
)

// SetupWithManager registers the controller. catalogs enqueues plans when published content changes; changes enqueues
// the plans that Concerned returns.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, catalogs, changes source.Source) error {
	born := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("installplan").
		For(&operatorsv1alpha1.InstallPlan{}, builder.WithPredicates(r.memory.othersChanges())).
		Watches(&operatorsv1alpha1.InstallPlan{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), born). // which it may supersede
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.using)).
		Watches(&apiregistrationv1.APIService{}, handler.EnqueueRequestsFromMapFunc(r.claiming)).
		WatchesRawSource(catalogs).
		WatchesRawSource(changes).
		WithOptions(fairqueue.Options(workers, workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry))).
		Complete(r)
}

// Unfinished lists the plans of a namespace, or of all namespaces, that are neither complete nor failed.
func (r *Reconciler) Unfinished(ctx context.Context, namespace string) []reconcile.Request {
	return r.unfinished(ctx, kit.Any, client.InNamespace(namespace))
}

func (r *Reconciler) unfinished(ctx context.Context, match func(*operatorsv1alpha1.InstallPlan) bool, opts ...client.ListOption) []reconcile.Request {
	return kit.Matching(ctx, r.Client, &operatorsv1alpha1.InstallPlanList{}, func(ip *operatorsv1alpha1.InstallPlan) bool {
		return !finished(ip) && match(ip)
	}, opts...)
}
