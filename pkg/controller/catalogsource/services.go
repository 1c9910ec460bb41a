package catalogsource

import (
	"context"
	"fmt"
	"net"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cataloggrpc "github.com/remit-olm/remit/pkg/catalog/grpc"
)

// services tells what tenants' addresses lead to. A Service may stand for a name elsewhere, or for addresses that its author
// wrote: by such a Service nobody may reach what its address may not name (docs/adr/0025).
type services struct {
	// reader has the Services once watch has returned; watch begins with its first call: most clusters have no such catalog.
	reader client.Reader
	watch  func(context.Context) error
}

// unread is an error of reading a Service, which no watch wakes us from.
type unread struct{ error }

// Unwrap returns the error.
func (u unread) Unwrap() error { return u.error }

// target is what to dial for a port of a Service: the Service's own address, so that no name is looked up.
func (s *services) target(ctx context.Context, namespace string, at cataloggrpc.Service) (string, error) {
	if err := s.watch(ctx); err != nil {
		return "", unread{err}
	}
	service := &corev1.Service{}
	err := s.reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: at.Name}, service)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("Service %s/%s does not exist", namespace, at.Name)
	}
	if err != nil {
		return "", unread{fmt.Errorf("get Service %s/%s: %w", namespace, at.Name, err)}
	}
	if why := leadsElsewhere(service); why != "" {
		return "", fmt.Errorf("Service %s/%s %s", namespace, at.Name, why)
	}
	return net.JoinHostPort(service.Spec.ClusterIP, at.Port), nil
}

// leadsElsewhere says why what answers at a Service need not be a Pod of its namespace, "" where it is.
func leadsElsewhere(service *corev1.Service) string {
	switch {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return "stands for a name outside of the cluster (type ExternalName)"
	case len(service.Spec.Selector) == 0:
		return "has no spec.selector: the address of a catalog may only name a Service that selects Pods of its namespace"
	case net.ParseIP(service.Spec.ClusterIP) == nil:
		return "has no cluster IP: the address of a catalog may not name a headless Service"
	}
	return ""
}

// watchServices prepares a cache of Services, of which it keeps no more than where they lead.
func (r *Reconciler) watchServices(mgr ctrl.Manager) error {
	cached, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Service{}: {Transform: whereItLeads}},
	})
	if err != nil {
		return fmt.Errorf("cache of Services: %w", err)
	}
	if err := mgr.Add(cached); err != nil {
		return fmt.Errorf("add cache of Services: %w", err)
	}
	r.services.reader = cached
	var mu sync.Mutex
	watched := false
	r.services.watch = func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if watched {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, watchTimeout)
		defer cancel()
		informer, err := cached.GetInformer(ctx, &corev1.Service{})
		if err == nil {
			_, err = informer.AddEventHandler(r.wakesNamespace())
		}
		if err != nil {
			return fmt.Errorf("watch Services: %w", err)
		}
		watched = true
		return nil
	}
	return nil
}

func whereItLeads(obj any) (any, error) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return obj, nil
	}
	out := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: service.Namespace, Name: service.Name, UID: service.UID, ResourceVersion: service.ResourceVersion,
	}}
	out.Spec.Type, out.Spec.ClusterIP, out.Spec.Selector = service.Spec.Type, service.Spec.ClusterIP, service.Spec.Selector
	return out, nil
}

// wakesNamespace wakes the CatalogSources of a Service's namespace.
func (r *Reconciler) wakesNamespace() toolscache.ResourceEventHandler {
	wake := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if service, ok := obj.(*corev1.Service); ok {
			for _, req := range r.all(context.Background(), service.Namespace) {
				r.waker.wake(req.NamespacedName)
			}
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: wake, DeleteFunc: wake, UpdateFunc: func(old, now any) {
		before, ok := old.(*corev1.Service)
		after, is := now.(*corev1.Service)
		if !ok || !is || leadsElsewhere(before) != leadsElsewhere(after) || before.Spec.ClusterIP != after.Spec.ClusterIP {
			wake(now)
		}
	}}
}

// all are the CatalogSources of a namespace.
func (r *Reconciler) all(ctx context.Context, namespace string) []reconcile.Request {
	list := newObjects()
	if err := r.Cache.List(ctx, list, client.InNamespace(namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CatalogSources of a namespace")
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}
