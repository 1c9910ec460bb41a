package kit

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Notify is called with an object before and after a change. before is nil for a new object, after for a deleted one.
type Notify func(before, after client.Object)

// OnEvent calls notify for each object of a kind, and for each change of one.
func OnEvent(ctx context.Context, informers cache.Informers, kind client.Object, notify Notify) error {
	return handle(ctx, informers, kind, events(notify))
}

// OnChange calls notify for each change of an object of these kinds. Objects that exist when the program starts are no
// changes: the workers start after they were read.
func OnChange(ctx context.Context, informers cache.Informers, kinds []client.Object, notify Notify) error {
	for _, kind := range kinds {
		if err := handle(ctx, informers, kind, changes{events(notify)}); err != nil {
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

// changes is events without the objects of the first list.
type changes struct {
	toolscache.ResourceEventHandler
}

// OnAdd implements toolscache.ResourceEventHandler.
func (c changes) OnAdd(obj any, initial bool) {
	if !initial {
		c.ResourceEventHandler.OnAdd(obj, initial)
	}
}

func events(notify Notify) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if after := object(obj); after != nil {
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
