package kit

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// Orphaning records which objects are deleted with the propagation policy Orphan, as with kubectl delete
// --cascade=orphan. The finalizer "orphan" alone does not show this: the garbage collector removes it after it has removed
// the owner references of the dependents, often before a controller reconciles the object. Orphaning does not recognize objects
// from which the garbage collector removed the finalizer before the watch began, or while it was interrupted. The zero value is
// ready for use.
type Orphaning struct {
	objects keyed.Map[types.UID, bool]
}

// Predicate returns a predicate that records what the events show, and accepts all events. It must be the first predicate of
// the watch, because the predicates after one that rejects an event are not called. Pass all predicates of a watch to the same
// builder.WithPredicates, because a second one replaces the first.
func (o *Orphaning) Predicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			o.observe(e.Object)
			return true
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				o.objects.Delete(e.ObjectOld.GetUID())
			}
			o.observe(e.ObjectNew)
			return true
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			o.objects.Delete(e.Object.GetUID())
			return true
		},
	}
}

func (o *Orphaning) observe(obj client.Object) {
	if isOrphaning(obj) {
		o.objects.Set(obj.GetUID(), true)
	}
}

// Includes reports whether an object is being deleted with the propagation policy Orphan.
func (o *Orphaning) Includes(obj client.Object) bool {
	return isOrphaning(obj) || o.objects.Get(obj.GetUID())
}

func isOrphaning(obj client.Object) bool {
	return obj.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(obj, metav1.FinalizerOrphanDependents)
}
