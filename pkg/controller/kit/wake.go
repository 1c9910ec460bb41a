package kit

import (
	"context"
	"fmt"
	"sync"
	"time"

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

// Matching returns requests for the cached objects for which match returns true. match must not modify an object.
func Matching[T client.Object](ctx context.Context, cached client.Reader, list client.ObjectList, match func(T) bool, opts ...client.ListOption) []ctrl.Request {
	if err := cached.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache is not synced yet; its initial list enqueues all objects
	}
	var out []ctrl.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the callback never returns an error
		if obj, ok := item.(T); ok && match(obj) {
			out = append(out, Request(obj.GetNamespace(), obj.GetName()))
		}
		return nil
	})
	return out
}

// Sooner returns the shorter of two durations; 0 means that nothing is awaited.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Any matches all objects.
func Any[T client.Object](T) bool { return true }

// Request returns the request for an object.
func Request(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// Waker adds requests to a controller's queue without a watch event. It never blocks. The zero value is ready to use.
type Waker struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]
	waiting []ctrl.Request
}

// Start has the signature of source.Func. The controller calls it with its queue.
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

// Wake adds the request for an object to the queue. Before Start is called, it only stores the request; Start then adds
// it to the queue.
func (w *Waker) Wake(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		w.waiting = append(w.waiting, ctrl.Request{NamespacedName: key})
		return
	}
	w.queue.Add(ctrl.Request{NamespacedName: key})
}

// Interests finds the requests that a change to RBAC, a ServiceAccount or a Namespace affects. The zero value is ready
// to use.
type Interests struct{ lookups rbac.Interests[ctrl.Request] }

// Track replaces the listers with listers that track what one reconcile of a request looks up, so that Concerned later
// finds the request. The caller passes the listers of its own copy of the Reconciler, and calls the returned function
// when the reconcile ends.
func (i *Interests) Track(req ctrl.Request, listers *rbac.Listers) (done func()) {
	*listers, done = i.lookups.Track(req, *listers)
	return done
}

// Concerned lists the requests whose reconciles looked up an object that the change affects, and the requests for each
// namespace with an OperatorGroup whose account or targets the change affects. before is nil for a new object, and after is nil for a
// deleted one. requestsOf returns the requests for the namespace of an OperatorGroup; it is called once for each namespace.
func (i *Interests) Concerned(ctx context.Context, cached scoped.Lookup, before, after client.Object, requestsOf handler.MapFunc) []ctrl.Request {
	groups, err := cached.Concerned(ctx, before, after)
	if err != nil {
		return nil // the cache is not synced yet; its initial list enqueues all objects
	}
	out := i.lookups.Concerned(before, after)
	groups = scoped.OnePerNamespace(groups)
	for g := range groups {
		out = append(out, requestsOf(ctx, &groups[g])...)
	}
	return out
}

// ConcernedGroups is like Concerned for a controller of OperatorGroups: it lists each OperatorGroup whose account or targets the change
// affects.
func (i *Interests) ConcernedGroups(ctx context.Context, cached scoped.Lookup, before, after client.Object) []ctrl.Request {
	groups, err := cached.Concerned(ctx, before, after)
	if err != nil {
		return nil // the cache is not synced yet; its initial list enqueues all objects
	}
	out := i.lookups.Concerned(before, after)
	for g := range groups {
		out = append(out, Request(groups[g].Namespace, groups[g].Name))
	}
	return out
}

// Notify is called with the states of an object before and after a change. before is nil for a new object, and after is
// nil for a deleted one.
type Notify func(before, after client.Object)

// OnEvent calls notify for each existing object of a kind, and for each later change.
func OnEvent(ctx context.Context, informers cache.Informers, kind client.Object, notify Notify) error {
	return OnEvents(ctx, informers, kind, notify, notify)
}

// OnEvents calls existing for each object of a kind that exists when the program starts, and changed for each later change.
func OnEvents(ctx context.Context, informers cache.Informers, kind client.Object, existing, changed Notify) error {
	return handle(ctx, informers, kind, events(existing, changed))
}

// OnChange calls notify for each change to an object of these kinds. It does not call notify for objects that exist
// when the program starts, because the workers start after these objects are read.
func OnChange(ctx context.Context, informers cache.Informers, kinds []client.Object, notify Notify) error {
	for _, kind := range kinds {
		if err := handle(ctx, informers, kind, events(nil, notify)); err != nil {
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
		return fmt.Errorf("informer for %T: %w", kind, err)
	}
	return nil
}

// events returns a handler that calls existing, unless it is nil, for the objects of the initial list, and changed for changes.
func events(existing, changed Notify) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isFirst bool) {
			after := object(obj)
			switch {
			case after == nil:
			case !isFirst:
				changed(nil, after)
			case existing != nil:
				existing(nil, after)
			}
		},
		UpdateFunc: func(was, is any) {
			before, after := object(was), object(is)
			if before != nil && after != nil {
				changed(before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if before := object(obj); before != nil {
				changed(before, nil)
			}
		},
	}
}

// object returns the object in an event. It unwraps the tombstone of an object whose deletion the informer's watch
// missed.
func object(obj any) client.Object {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	o, _ := obj.(client.Object)
	return o
}

// Latest returns the current state of an object or, if the object was deleted, its last known state. The arguments are
// those of Notify.
func Latest(before, after client.Object) client.Object {
	if after == nil {
		return before
	}
	return after
}
