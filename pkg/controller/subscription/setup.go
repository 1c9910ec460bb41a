package subscription

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/resolver"
)

const (
	controllerName = "subscription"
	// workers is the maximum number of namespaces that are resolved concurrently.
	workers = 4
	// unreadablePause is the delay before checking again which namespaces an account is allowed to get. It is used only if
	// RBAC cannot be read or the API server has not decided this.
	unreadablePause = time.Minute
)

// MaxMemory returns the bound of the estimated memory for all resolutions that are running, in bytes (docs/adr/0091).
func MaxMemory() int64 {
	return workers*(resolver.Light().Memory+resolver.OrdinaryCost+catalog.MaxContentBytes) + resolver.Full().Memory + resolver.MaxPlanCost
}

// SetupWithManager registers the controller. catalogs wakes namespaces when the content of a catalog changes. changes
// wakes the namespaces that Concerned returns.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, catalogs, changes source.Source) error {
	own := handler.EnqueueRequestsFromMapFunc(ownNamespace)
	if err := mgr.Add(r.long); err != nil {
		return fmt.Errorf("add the queue of long resolutions: %w", err)
	}
	waits := &fairqueue.Waits{}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		Watches(&operatorsv1alpha1.Subscription{}, own, builder.WithPredicates(r.replaced.DropTexts())).
		Watches(&operatorsv1alpha1.ClusterServiceVersion{}, own).
		Watches(&operatorsv1alpha1.InstallPlan{}, own).
		Watches(&operatorsv1.OperatorGroup{}, own).
		// This controller only checks whether a CatalogSource exists. Its content and priority come from the catalog's Store, which
		// reports their changes.
		Watches(metadata(operatorsv1alpha1.CatalogSourceKind), handler.EnqueueRequestsFromMapFunc(r.catalogUsers), builder.WithPredicates(kit.Replaced(), kit.DropExisting())).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.namespacesInNeed), builder.WithPredicates(kindsChanged(), kit.DropExisting())).
		WatchesRawSource(catalogs).
		WatchesRawSource(changes).
		WatchesRawSource(source.Func(r.long.waker.Start)).
		WatchesRawSource(source.Func(r.reloading.start)).
		WithOptions(fairqueue.Options(mgr, workers, fairqueue.RetryLimiter(fairqueue.LastRetry), waits)).
		Complete(waits.Measure(r))
}

func request(namespace string) reconcile.Request { return kit.Request("", namespace) }

func ownNamespace(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{request(obj.GetNamespace())}
}

// catalogUsers returns requests for the namespaces that can use a CatalogSource: all namespaces if the CatalogSource is
// global, and otherwise only its own.
func (r *Reconciler) catalogUsers(ctx context.Context, source client.Object) []reconcile.Request {
	namespace := source.GetNamespace()
	if namespace == r.GlobalCatalogNamespace {
		namespace = metav1.NamespaceAll
	}
	return r.Namespaces(ctx, namespace)
}

// namespacesInNeed returns requests for the namespaces in which a Subscription could not be resolved or an upgrade is
// held back, because these may be waiting for a kind that is now served.
func (r *Reconciler) namespacesInNeed(ctx context.Context, _ client.Object) []reconcile.Request {
	r.kinds.changed()
	return r.namespaces(ctx, func(sub *operatorsv1alpha1.Subscription) bool {
		return unresolved(sub) || sub.Status.GetCondition(typeUpgradeHeldBack).Status == corev1.ConditionTrue
	})
}

// Namespaces returns a request for the namespace if it contains Subscriptions. If namespace is empty, it returns a
// request for each namespace that contains Subscriptions.
func (r *Reconciler) Namespaces(ctx context.Context, namespace string) []reconcile.Request {
	return r.namespaces(ctx, kit.Any, client.InNamespace(namespace))
}

// Concerned returns requests for the namespaces that contain an unresolved Subscription and whose account or targets
// are affected by a change: a ServiceAccount or Namespace is created or deleted, a selector starts or stops matching a
// Namespace, or the account's permission to get a target changes. before is nil for a new object, and after is nil for
// a deleted one.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	concerned := r.interests.Concerned(ctx, r.Default.Lookup(r.Client), before, after, ownNamespace)
	var out []reconcile.Request
	for _, req := range concerned {
		out = append(out, r.namespaces(ctx, unresolved, client.InNamespace(req.Name))...)
	}
	return out
}

func unresolved(sub *operatorsv1alpha1.Subscription) bool {
	return sub.Status.GetCondition(operatorsv1alpha1.SubscriptionResolutionFailed).Status == corev1.ConditionTrue
}

// namespaces returns one request for each namespace that contains a Subscription for which match returns true.
func (r *Reconciler) namespaces(ctx context.Context, match func(*operatorsv1alpha1.Subscription) bool, opts ...client.ListOption) []reconcile.Request {
	seen := map[reconcile.Request]bool{}
	for _, sub := range kit.Matching(ctx, r.Client, &operatorsv1alpha1.SubscriptionList{}, match, opts...) {
		seen[request(sub.Namespace)] = true
	}
	return slices.Collect(maps.Keys(seen))
}
