package operatorgroup

import (
	"context"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/lib/fairqueue"
)

// workers is how many OperatorGroups are reconciled at once.
const workers = 8

// behind is how long the cache is given to catch up after a conflict.
const behind = 100 * time.Millisecond

// SetupWithManager registers the watches. Nothing is polled or resynced. changes wakes those that
// Concerned names.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, changes source.Source) error {
	own := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, statusChanged()))
	born := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
	return ctrl.NewControllerManagedBy(mgr).Named("operatorgroup").
		WithOptions(fairqueue.Options(workers, nil)).
		For(&operatorsv1.OperatorGroup{}, own).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.siblings), born).
		WatchesRawSource(changes).
		Complete(r)
}

// statusChanged lets a changed status pass: one that somebody else wrote is to be corrected. The look at one
// of our own ends in the cache.
func statusChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*operatorsv1.OperatorGroup)
		after, is := e.ObjectNew.(*operatorsv1.OperatorGroup)
		return ok && is && !equality.Semantic.DeepEqual(before.Status, after.Status)
	}}
}

// siblings wakes the other OperatorGroups of a namespace when one comes or goes.
func (r *Reconciler) siblings(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, func(og *operatorsv1.OperatorGroup) bool { return og.Name != obj.GetName() },
		client.InNamespace(obj.GetNamespace()))
}

func (r *Reconciler) matching(ctx context.Context, match func(*operatorsv1.OperatorGroup) bool, opts ...client.ListOption) []reconcile.Request {
	list := &operatorsv1.OperatorGroupList{}
	if err := r.client.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache is not there yet: its first list brings every OperatorGroup anyway
	}
	var out []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// looking returns the reconciler for one look at an OperatorGroup: changes of what it asks of RBAC then
// wake the OperatorGroup.
func (r *Reconciler) looking(req ctrl.Request) (*Reconciler, func()) {
	look := *r
	var looked func()
	look.rbac, looked = r.interests.Track(req, r.rbac)
	return &look, looked
}

// Concerned lists the OperatorGroups that a change of RBAC, of a ServiceAccount or of a Namespace
// concerns. before is nil for a new object, after for one that is gone.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	groups, err := r.lookup.Concerned(ctx, before, after)
	if err != nil {
		return nil // as in matching
	}
	out := r.interests.Concerned(before, after)
	for i := range groups {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&groups[i])})
	}
	return out
}
