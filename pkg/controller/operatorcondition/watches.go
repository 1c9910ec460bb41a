package operatorcondition

import (
	"context"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
)

// workers is the number of OperatorConditions that are reconciled concurrently.
const workers = 8

// SetupWithManager registers the watches; the controller does not poll or resync. changes wakes the ClusterServiceVersions
// that Concerned returns.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, changes source.Source) error {
	return ctrl.NewControllerManagedBy(mgr).Named("operatorcondition").
		WithOptions(fairqueue.Options(mgr, workers, nil)).
		For(&operatorsv1alpha1.ClusterServiceVersion{}, builder.WithPredicates(kit.SpecChanged())).
		Watches(&operatorsv2.OperatorCondition{}, &handler.EnqueueRequestForObject{}).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.Or(kit.SpecChanged(), predicate.AnnotationChangedPredicate{}), kit.DropExisting())).
		WatchesRawSource(changes).
		Complete(r)
}

func (r *Reconciler) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return kit.Matching(ctx, r.Client, &operatorsv1alpha1.ClusterServiceVersionList{}, kit.Any[*operatorsv1alpha1.ClusterServiceVersion], client.InNamespace(obj.GetNamespace()))
}

// Concerned lists the ClusterServiceVersions whose OperatorConditions a change to RBAC, a ServiceAccount or a Namespace
// affects. before is nil for a new object, and after is nil for a deleted one.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	return r.interests.Concerned(ctx, r.Default.Lookup(r.Client), before, after, r.inNamespace)
}
