package operatorgroup

import (
	"context"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// behind is how long the cache is given to catch up after a conflict.
const behind = 100 * time.Millisecond

// SetupWithManager registers the watches. Nothing is polled or resynced.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	spec := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	labels := builder.WithPredicates(predicate.LabelChangedPredicate{})
	born := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
	c := ctrl.NewControllerManagedBy(mgr).Named("operatorgroup").
		For(&operatorsv1.OperatorGroup{}, spec).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.siblings), born).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(r.naming), born).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.selecting), labels)
	for _, obj := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		c = c.Watches(obj, r.rbacHandler())
	}
	return c.Complete(r)
}

// siblings wakes the other OperatorGroups of a namespace when one comes or goes.
func (r *Reconciler) siblings(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, func(og *operatorsv1.OperatorGroup) bool { return og.Name != obj.GetName() },
		client.InNamespace(obj.GetNamespace()))
}

// naming wakes the OperatorGroups whose account comes or goes.
func (r *Reconciler) naming(ctx context.Context, obj client.Object) []reconcile.Request {
	key := client.ObjectKeyFromObject(obj)
	if key == r.lookup.Default.Account {
		return r.matching(ctx, func(og *operatorsv1.OperatorGroup) bool { return og.Spec.ServiceAccountName == "" })
	}
	return r.matching(ctx, func(og *operatorsv1.OperatorGroup) bool { return og.Spec.ServiceAccountName == key.Name },
		client.InNamespace(key.Namespace))
}

// selecting wakes the OperatorGroups that select namespaces by label.
func (r *Reconciler) selecting(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.matching(ctx, func(og *operatorsv1.OperatorGroup) bool {
		return len(og.Spec.TargetNamespaces) == 0 && og.Spec.Selector != nil
	})
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

// rbacHandler wakes the OperatorGroups whose account could not be used, and, where a Role or
// RoleBinding was changed or removed, those whose account lives in its namespace: they may have lost
// their enrolment.
func (r *Reconciler) rbacHandler() handler.EventHandler {
	wake := func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request], namespace string, mayLose bool) {
		for _, req := range r.matching(ctx, func(og *operatorsv1.OperatorGroup) bool {
			if home := r.home(og); namespace != "" && home != namespace {
				return false
			}
			return mayLose && namespace != "" || !meta.IsStatusConditionTrue(og.Status.Conditions, AccountUsable)
		}) {
			q.Add(req)
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				wake(ctx, q, e.Object.GetNamespace(), false)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			wake(ctx, q, e.ObjectNew.GetNamespace(), true)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			wake(ctx, q, e.Object.GetNamespace(), true)
		},
	}
}

// home is the namespace of the OperatorGroup's account.
func (r *Reconciler) home(og *operatorsv1.OperatorGroup) string {
	if none := (types.NamespacedName{}); og.Spec.ServiceAccountName == "" && r.lookup.Default.Account != none {
		return r.lookup.Default.Account.Namespace
	}
	return og.Namespace
}
