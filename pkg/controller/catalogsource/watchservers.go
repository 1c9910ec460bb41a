package catalogsource

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// watchTimeout bounds the wait for the initial list of Pods and Services.
const watchTimeout = 20 * time.Second

// watchServers prepares a cache of the global catalog namespace's Services and registry Pods. Nothing is watched until
// an image has to be run: most clusters have none, and the required Role may be missing.
func (r *Reconciler) watchServers(mgr ctrl.Manager) error {
	ours, err := labels.NewRequirement(names.LabelCatalogSource, selection.Exists, nil)
	if err != nil {
		return err
	}
	cached, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform:  cache.TransformStripManagedFields(),
		DefaultNamespaces: map[string]cache.Config{r.GlobalNamespace: {}},
		ByObject:          map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: labels.NewSelector().Add(*ours)}},
	})
	if err != nil {
		return fmt.Errorf("cache of registries: %w", err)
	}
	if err := mgr.Add(cached); err != nil {
		return fmt.Errorf("add cache of registries: %w", err)
	}
	r.servers.cached = cached
	r.servers.watch = r.watchOnce(cached)
	return nil
}

// watchOnce returns servers.watch. It first checks whether Pods can be listed: a refused watch is not reported, and
// retried forever.
func (r *Reconciler) watchOnce(cached cache.Cache) func(context.Context) error {
	var mu sync.Mutex
	missing := []client.Object{&corev1.Pod{}, &corev1.Service{}}
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if len(missing) == 0 {
			return nil
		}
		if err := r.Live.List(ctx, &corev1.PodList{}, client.InNamespace(r.GlobalNamespace), client.Limit(1)); err != nil {
			return fmt.Errorf("list Pods of namespace %s: %w", r.GlobalNamespace, err)
		}
		ctx, cancel := context.WithTimeout(ctx, watchTimeout)
		defer cancel()
		for len(missing) > 0 {
			informer, err := cached.GetInformer(ctx, missing[0])
			if err != nil {
				return fmt.Errorf("watch %ss of namespace %s: %w", kindOf(missing[0]), r.GlobalNamespace, err)
			}
			if _, err := informer.AddEventHandler(r.ownedObjectHandler()); err != nil { //nolint:contextcheck // event handlers have no context
				return fmt.Errorf("watch %ss: %w", kindOf(missing[0]), err)
			}
			missing = missing[1:]
		}
		return nil
	}
}

// ownedObjectHandler wakes the CatalogSource that owns an object, and those whose Service has the same name.
func (r *Reconciler) ownedObjectHandler() toolscache.ResourceEventHandler {
	wake := func(obj any) {
		if deleted, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = deleted.Obj
		}
		changed, ok := obj.(client.Object)
		if !ok {
			return
		}
		if owner := server.Owner(changed); owner != "" {
			r.waker.wake(types.NamespacedName{Namespace: changed.GetNamespace(), Name: owner})
		}
		if _, ok := changed.(*corev1.Service); ok {
			r.wakeNamed(changed)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, obj any) { wake(obj) }, DeleteFunc: wake}
}

// wakeNamed wakes the CatalogSources whose Service has, or had, a collision with this one.
func (r *Reconciler) wakeNamed(service metav1.Object) {
	for _, req := range r.all(context.Background(), service.GetNamespace()) {
		if server.ServiceName(req.Name) == service.GetName() {
			r.waker.wake(req.NamespacedName)
		}
	}
}

// enqueueForServiceAccount wakes the CatalogSource with the name of a ServiceAccount in the global catalog namespace.
func (r *Reconciler) enqueueForServiceAccount() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, account client.Object) []reconcile.Request {
		if account.GetNamespace() != r.GlobalNamespace {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(account)}}
	})
}

// enqueueForNamespace wakes the CatalogSources in the global catalog namespace when its labels change, which define
// requirements for Pods.
func (r *Reconciler) enqueueForNamespace() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, namespace client.Object) []reconcile.Request {
		if namespace.GetName() != r.GlobalNamespace {
			return nil
		}
		return r.all(ctx, namespace.GetName())
	})
}
