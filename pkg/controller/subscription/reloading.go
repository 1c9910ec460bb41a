package subscription

import (
	"context"
	"slices"
	"sync"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
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

// isLoadingAny reports whether nothing is known yet about the content of one of the catalogs.
func (r *Reconciler) isLoadingAny(visible []types.NamespacedName) bool {
	return slices.ContainsFunc(visible, r.Catalogs.IsLoading)
}

// wasHealthy reports whether a status says that the catalog is healthy.
func (v catalogView) wasHealthy(st *operatorsv1alpha1.SubscriptionStatus) bool {
	return v.source != nil && slices.ContainsFunc(st.CatalogHealth, func(h operatorsv1alpha1.SubscriptionCatalogHealth) bool {
		return h.Healthy && h.CatalogSourceRef != nil && h.CatalogSourceRef.UID == v.source.UID
	})
}

// hasNews reports whether two statuses differ in what does not depend on catalogs: the installed version, the account, permissions that it
// no longer has, the reason that a plan could not be created, and the state of the plan. These are written at once, because users may
// have to act, and because the csv controller waits for the plan. Without a plan, the conditions about plans say nothing: a plan that
// waits for its approval is found again only when the catalogs have been loaded.
func (v view) hasNews(before, after *operatorsv1alpha1.SubscriptionStatus) bool {
	differs := func(t operatorsv1alpha1.SubscriptionConditionType) bool {
		was, is := before.GetCondition(t), after.GetCondition(t)
		return was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message
	}
	if before.InstalledCSV != after.InstalledCSV || differs(typeExceedsAccount) || differs(typeAuthorUnchecked) {
		return true
	}
	if v.unpackFailed != nil && differs(operatorsv1alpha1.SubscriptionBundleUnpackFailed) {
		return true
	}
	return v.plan != nil && (before.InstallPlanRef == nil || before.InstallPlanRef.UID != v.plan.UID || slices.ContainsFunc(ofPlans(), differs))
}

// ofPlans returns the types of the conditions that describe the state of a plan.
func ofPlans() []operatorsv1alpha1.SubscriptionConditionType {
	return []operatorsv1alpha1.SubscriptionConditionType{
		operatorsv1alpha1.SubscriptionInstallPlanPending, operatorsv1alpha1.SubscriptionInstallPlanFailed, typePermissionsMissing, typeObjectsRefused, typeWebhooksIncluded,
	}
}
