package fairqueue

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/keyed"
	slots "github.com/remit-olm/remit/pkg/lib/turns"
)

// Waits tells a queue how long reconciles have waited for turns of other namespaces, so that this does not make their own
// namespace slow. The zero value is ready to use, for one controller.
type Waits struct {
	of keyed.Map[reconcile.Request, time.Duration]
}

// Measure returns a Reconciler that calls r and measures its waits.
func (w *Waits) Measure(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		ctx, waits := slots.Measure(ctx)
		defer func() { w.of.Set(req, waits.Total()) }()
		return r.Reconcile(ctx, req)
	})
}

// take returns and removes the wait of an item that is done.
func (w *Waits) take(item any) time.Duration {
	req, ok := item.(reconcile.Request)
	if !ok {
		return 0
	}
	return w.of.Delete(req)
}

// waited returns how long an item has waited for other namespaces.
func (l Limits) waited(item any) time.Duration {
	if l.Waited == nil {
		return 0
	}
	return l.Waited(item)
}
