package subscription

import (
	"context"
	"slices"
	"sync"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// reloadTime limits how long statuses are kept while catalogs are loaded again after a restart.
const reloadTime = time.Minute

// reloading keeps the statuses of Subscriptions after a restart until the catalogs that the namespace can use have been loaded again.
// Without it, each of them would be written twice: as unhealthy, and then as it was. A catalog that has been loaded wakes its namespaces.
// After reloadTime, the others are woken. The zero value keeps nothing.
type reloading struct {
	mu sync.Mutex
	// active is true from the start of the controller until reloadTime has passed. held contains the namespaces with kept statuses.
	active bool
	held   map[string]struct{}
}

// start implements source.Func.
func (l *reloading) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active, l.held = true, map[string]struct{}{}
	timer := time.AfterFunc(reloadTime, func() {
		for namespace := range l.end() {
			queue.Add(request(namespace))
		}
	})
	context.AfterFunc(ctx, func() { timer.Stop() })
	return nil
}

// end returns the namespaces whose statuses were kept until now.
func (l *reloading) end() map[string]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.held
	l.active, l.held = false, nil
	return held
}

// hold reports whether statuses in a namespace are kept. If so, the namespace is woken when they are no longer kept.
func (l *reloading) hold(namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active {
		l.held[namespace] = struct{}{}
	}
	return l.active
}

// isLoadingAny reports whether nothing is known yet about the content of a catalog that the namespace can use.
func (r *Reconciler) isLoadingAny(w *world) bool {
	return slices.ContainsFunc(w.input.Visible, r.Catalogs.IsLoading)
}

// wasHealthy reports whether a status says that the catalog is healthy.
func (v catalogView) wasHealthy(st *operatorsv1alpha1.SubscriptionStatus) bool {
	return v.source != nil && slices.ContainsFunc(st.CatalogHealth, func(h operatorsv1alpha1.SubscriptionCatalogHealth) bool {
		return h.Healthy && h.CatalogSourceRef != nil && h.CatalogSourceRef.UID == v.source.UID
	})
}
