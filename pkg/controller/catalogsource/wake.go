package catalogsource

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// watchTimeout bounds the wait for the first list of a kind.
const watchTimeout = 20 * time.Second

// lazyCache is a cache of kinds that are not watched until they are needed.
type lazyCache struct {
	cache.Cache
	notify kit.Notify
	// check returns an error if the kinds cannot be listed: a forbidden watch would be retried forever without reporting
	// an error.
	check func(context.Context) error

	mu      sync.Mutex
	missing []client.Object
}

func newLazyCache(mgr ctrl.Manager, o cache.Options, notify kit.Notify, kinds ...client.Object) (*lazyCache, error) {
	o.HTTPClient, o.Scheme, o.Mapper = mgr.GetHTTPClient(), mgr.GetScheme(), mgr.GetRESTMapper()
	cached, err := cache.New(mgr.GetConfig(), o)
	if err == nil {
		err = mgr.Add(cached)
	}
	if err != nil {
		return nil, fmt.Errorf("set up cache of %T: %w", kinds[0], err)
	}
	return &lazyCache{Cache: cached, notify: notify, check: func(context.Context) error { return nil }, missing: kinds}, nil
}

// watch returns once all kinds are watched and have been listed.
func (l *lazyCache) watch(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.missing) == 0 {
		return nil
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	for len(l.missing) > 0 {
		if err := kit.OnEvent(ctx, l.Cache, l.missing[0], l.notify); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		l.missing = l.missing[1:]
	}
	return nil
}

// watchServers prepares a cache of the global catalog namespace's Services and registry Pods. Nothing is watched until
// an image has to be run: most clusters have none, and the required Role may be missing.
func (r *Reconciler) watchServers(mgr ctrl.Manager) error {
	lazy, err := newLazyCache(mgr, cache.Options{
		DefaultTransform:  stripRegistry,
		DefaultNamespaces: map[string]cache.Config{r.GlobalNamespace: {}},
		ByObject:          map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: hasLabel(names.LabelCatalogSource)}},
	}, r.ownedChanged, &corev1.Pod{}, &corev1.Service{})
	if err != nil {
		return err
	}
	lazy.check = canListPods(r.Live, r.GlobalNamespace)
	r.servers.cached, r.servers.watch = lazy, lazy.watch
	return nil
}

// maxOwners and maxContainers are the numbers of owners, and of containers with their images, that the cache keeps of a Pod or Service. Those
// of a registry have one, and those that admission adds.
const maxOwners, maxContainers = 10, 20

// stripRegistry removes what is not read from the cache of registries. Any user can add the label of a registry to large Pods. A Pod is
// promoted, and a step is decided, with the Pods in the API server.
func stripRegistry(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil //nolint:nilerr // the last known state of a deleted object
	}
	accessor.SetManagedFields(nil)
	accessor.SetAnnotations(nil)
	accessor.SetFinalizers(nil)
	if owners := accessor.GetOwnerReferences(); len(owners) > maxOwners {
		accessor.SetOwnerReferences(slices.Clone(owners[:maxOwners]))
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		var kept []corev1.Container
		for i := range min(len(pod.Spec.Containers), maxContainers) {
			kept = append(kept, corev1.Container{Image: pod.Spec.Containers[i].Image})
		}
		pod.Spec = corev1.PodSpec{Containers: kept}
	}
	return obj, nil
}

// ownedChanged wakes the CatalogSource that owns an object. If the object is a Service, ownedChanged also wakes the
// CatalogSources whose Service would have the same name.
func (r *Reconciler) ownedChanged(before, after client.Object) {
	obj := kit.Latest(before, after)
	if owner := server.Owner(obj); owner != "" {
		r.waker.Wake(types.NamespacedName{Namespace: obj.GetNamespace(), Name: owner})
	}
	if _, ok := obj.(*corev1.Service); ok {
		r.wakeNamed(obj)
	}
}

// wakeNamed wakes the CatalogSources whose Service would have the same name as the given Service, because they may have
// reported a collision.
func (r *Reconciler) wakeNamed(service metav1.Object) {
	for _, req := range r.all(context.Background(), service.GetNamespace()) {
		if server.ServiceName(req.Name) == service.GetName() {
			r.waker.Wake(req.NamespacedName)
		}
	}
}

// ofServiceAccount returns the CatalogSource with the same name as a ServiceAccount if its registry runs, or may run.
func (r *Reconciler) ofServiceAccount(_ context.Context, account client.Object) []reconcile.Request {
	key := client.ObjectKeyFromObject(account)
	if account.GetNamespace() != r.GlobalNamespace && r.servers.histories.Get(key) == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// ofNamespace returns the CatalogSources in a namespace whose registries run, or may run. The namespace's labels define
// requirements for Pods.
func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return slices.DeleteFunc(r.all(ctx, namespace.GetName()), func(req reconcile.Request) bool {
		return req.Namespace != r.GlobalNamespace && r.servers.histories.Get(req.NamespacedName) == nil
	})
}
