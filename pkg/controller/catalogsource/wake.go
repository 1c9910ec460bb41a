package catalogsource

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// waker adds CatalogSources to the controller's queue from outside of reconciles. It never blocks.
type waker struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	waiting []types.NamespacedName
}

// start is a source.Func: the controller passes its queue.
func (w *waker) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = queue
	for _, key := range w.waiting {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
	w.waiting = nil
	return nil
}

func (w *waker) wake(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		w.waiting = append(w.waiting, key)
		return
	}
	w.queue.Add(reconcile.Request{NamespacedName: key})
}
