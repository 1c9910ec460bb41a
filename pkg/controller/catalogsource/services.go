package catalogsource

import (
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cataloggrpc "github.com/remit-olm/remit/pkg/catalog/grpc"
	"github.com/remit-olm/remit/pkg/controller/kit"
)

// services resolves tenants' addresses. A Service can refer to an external name or to arbitrary addresses; such
// Services are refused, because tenants could use them to reach hosts that spec.address must not name (docs/adr/0025).
type services struct {
	// reader reads Services after watch has returned. Watching starts with the first call, because most clusters have
	// no catalog that needs it.
	reader client.Reader
	watch  func(context.Context) error
}

// unread is an error from reading a Service. No watch event announces that a retry can succeed.
type unread struct{ error }

// Unwrap returns the cause.
func (u unread) Unwrap() error { return u.error }

// target returns the address to dial for a port of a Service. It is the Service's IP address, so that no name has to be resolved.
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
	if why := targetProblem(service); why != "" {
		return "", fmt.Errorf("Service %s/%s %s", namespace, at.Name, why)
	}
	return net.JoinHostPort(service.Spec.ClusterIP, at.Port), nil
}

// targetProblem explains why a Service may route to something other than Pods in its namespace, or returns "".
func targetProblem(service *corev1.Service) string {
	switch {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return "refers to a name outside the cluster (type ExternalName); the address of a catalog must name a Service that selects Pods in its namespace"
	case len(service.Spec.Selector) == 0:
		return "has no spec.selector; the address of a catalog must name a Service that selects Pods in its namespace"
	case net.ParseIP(service.Spec.ClusterIP) == nil:
		return "has no cluster IP; the address of a catalog must not name a headless Service"
	}
	return ""
}

// watchServices prepares a cache of Services that contains only the fields that are needed to resolve addresses.
func (r *Reconciler) watchServices(mgr ctrl.Manager) error {
	lazy, err := newLazyCache(mgr, cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Service{}: {Transform: stripService}}},
		r.serviceChanged, &corev1.Service{})
	if err != nil {
		return err
	}
	r.services.reader, r.services.watch = lazy, lazy.watch
	return nil
}

func stripService(obj any) (any, error) {
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

// serviceChanged wakes the CatalogSources in a Service's namespace if the change affects how the Service can be used.
func (r *Reconciler) serviceChanged(before, after client.Object) {
	old, _ := before.(*corev1.Service)
	current, _ := after.(*corev1.Service)
	if old != nil && current != nil && targetProblem(old) == targetProblem(current) && old.Spec.ClusterIP == current.Spec.ClusterIP {
		return
	}
	for _, req := range r.all(context.Background(), kit.Latest(before, after).GetNamespace()) {
		r.waker.Wake(req.NamespacedName)
	}
}

// all returns the CatalogSources in a namespace.
func (r *Reconciler) all(ctx context.Context, namespace string) []reconcile.Request {
	return kit.Matching(ctx, r.Cache, newObjects(), kit.Any[client.Object], client.InNamespace(namespace))
}
