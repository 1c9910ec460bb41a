package kit

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Matching lists the cached objects that match, as requests. match must not modify an object.
func Matching[T client.Object](ctx context.Context, cached client.Reader, list client.ObjectList, match func(T) bool, opts ...client.ListOption) []ctrl.Request {
	if err := cached.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache is not synced yet: its first list enqueues all objects
	}
	var out []ctrl.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error { // only the function returns errors, and it returns none
		if obj, ok := item.(T); ok && match(obj) {
			out = append(out, Request(obj.GetNamespace(), obj.GetName()))
		}
		return nil
	})
	return out
}

// Any matches all objects.
func Any[T client.Object](T) bool { return true }

// Request is the request for an object.
func Request(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// Waker adds requests to a controller's queue from outside of reconciles. It never blocks. The zero value is ready to use.
type Waker struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]
	waiting []ctrl.Request
}

// Start is a source.Func: the controller passes its queue.
func (w *Waker) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	for _, req := range w.waiting {
		queue.Add(req)
	}
	w.waiting = nil
	return nil
}

// Wake adds the request for an object. Before Start, it remembers the request.
func (w *Waker) Wake(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		w.waiting = append(w.waiting, ctrl.Request{NamespacedName: key})
		return
	}
	w.queue.Add(ctrl.Request{NamespacedName: key})
}

// Interests finds the requests of a controller that a change of RBAC, of a ServiceAccount or of a Namespace concerns.
// The zero value is ready to use.
type Interests struct{ lookups rbac.Interests[ctrl.Request] }

// Track replaces listers by ones that track what one reconcile of a request looks up: changes of it wake the request.
// The caller passes the listers of its own copy of the Reconciler, and calls the returned function when the reconcile
// ends.
func (i *Interests) Track(req ctrl.Request, listers *rbac.Listers) (done func()) {
	*listers, done = i.lookups.Track(req, *listers)
	return done
}

// Concerned lists the requests that looked up what a change affects, and those of each OperatorGroup whose account or
// targets it affects. before is nil for a new object, after for a deleted one. of lists those of an OperatorGroup.
func (i *Interests) Concerned(ctx context.Context, cached scoped.Lookup, before, after client.Object, of handler.MapFunc) []ctrl.Request {
	groups, err := cached.Concerned(ctx, before, after)
	if err != nil {
		return nil // as in Matching
	}
	out := i.lookups.Concerned(before, after)
	for g := range groups {
		out = append(out, of(ctx, &groups[g])...)
	}
	return out
}

// Notify is called with an object before and after a change. before is nil for a new object, after for a deleted one.
type Notify func(before, after client.Object)

// OnEvent calls notify for each object of a kind, and for each change of one.
func OnEvent(ctx context.Context, informers cache.Informers, kind client.Object, notify Notify) error {
	return handle(ctx, informers, kind, events(notify, true))
}

// OnChange calls notify for each change of an object of these kinds. Objects that exist when the program starts are not
// changes: the workers start after they were read.
func OnChange(ctx context.Context, informers cache.Informers, kinds []client.Object, notify Notify) error {
	for _, kind := range kinds {
		if err := handle(ctx, informers, kind, events(notify, false)); err != nil {
			return err
		}
	}
	return nil
}

func handle(ctx context.Context, informers cache.Informers, kind client.Object, handler toolscache.ResourceEventHandler) error {
	informer, err := informers.GetInformer(ctx, kind)
	if err == nil {
		_, err = informer.AddEventHandler(handler)
	}
	if err != nil {
		return fmt.Errorf("informer of %T: %w", kind, err)
	}
	return nil
}

// events calls notify for the objects of the first list only if withFirst is set.
func events(notify Notify, withFirst bool) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isFirst bool) {
			if after := object(obj); after != nil && (withFirst || !isFirst) {
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

// Latest returns the object of a Notify as it is, or as it was before its deletion.
func Latest(before, after client.Object) client.Object {
	if after == nil {
		return before
	}
	return after
}
