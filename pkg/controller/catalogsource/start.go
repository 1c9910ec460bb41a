package catalogsource

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxExpected is how long after the start room is left for CatalogSources that have not been tried yet: as long as one pull can take.
const maxExpected = pullTimeout

// start has the signature of source.Func. The controller calls it once, and reconciles nothing before it returns. Therefore, the
// CatalogSources that exist are known before the first content is admitted, also those whose reconcile is delayed because their
// namespace is suspended.
func (r *Reconciler) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	all := newObjects()
	if err := r.Cache.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil { // waits until the cache has synced
		return fmt.Errorf("list CatalogSources: %w", err)
	}
	var keys []types.NamespacedName
	_ = meta.EachListItem(all, func(item runtime.Object) error { // the callback never returns an error
		if obj, ok := item.(client.Object); ok {
			keys = append(keys, client.ObjectKeyFromObject(obj))
		}
		return nil
	})
	r.images.expect(keys)
	return r.waker.Start(ctx, queue)
}

// settle tells the budgets that a CatalogSource was tried, unless the first attempt to load it has neither succeeded nor failed.
func (r *Reconciler) settle(key types.NamespacedName, seen observation) {
	if seen.snapshot != nil || seen.problem != nil {
		r.images.settle(key)
	}
}

// expect records the CatalogSources that exist at the start in the budgets for content, for at most maxExpected.
func (i *images) expect(keys []types.NamespacedName) {
	for _, b := range i.contents() {
		b.expect(keys...)
	}
	i.Launch(func(ctx context.Context) {
		if i.sleep(ctx, maxExpected) {
			i.settle(keys...)
		}
	})
}

// settle ends what expect began for these CatalogSources.
func (i *images) settle(keys ...types.NamespacedName) {
	for _, b := range i.contents() {
		b.settle(keys...)
	}
}

// contents returns the budgets for content.
func (i *images) contents() []*budget { return []*budget{i.budget, i.space} }
