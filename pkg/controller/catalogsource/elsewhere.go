package catalogsource

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// watchElsewhere keeps the Services that stand for a name outside of the cluster, and only those: there are
// few, if any. A tenant's CatalogSource must not reach by such a Service what its address may not name.
func (r *Reconciler) watchElsewhere(mgr ctrl.Manager) (source.Source, error) {
	services, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Service{}: {Field: fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeExternalName))},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cache of Services: %w", err)
	}
	if err := mgr.Add(services); err != nil {
		return nil, fmt.Errorf("add cache of Services: %w", err)
	}
	r.elsewhere = services
	return source.Kind(services, &corev1.Service{}, handler.TypedEnqueueRequestsFromMapFunc(r.ofNamespace)), nil
}

func (r *Reconciler) ofNamespace(ctx context.Context, service *corev1.Service) []reconcile.Request {
	return r.all(ctx, service.Namespace)
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

// leadsElsewhere says what is wrong with a target, <service>.<namespace>.svc:<port>, whose Service stands
// for a name outside of the cluster.
func (r *Reconciler) leadsElsewhere(ctx context.Context, namespace, target string) error {
	if r.elsewhere == nil {
		return nil
	}
	name, _, _ := strings.Cut(target, ".")
	service := &corev1.Service{}
	if err := r.elsewhere.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, service); err != nil {
		return client.IgnoreNotFound(err)
	}
	return fmt.Errorf("address %q: Service %s/%s stands for a name outside of the cluster (type %s)", target, namespace, name, service.Spec.Type)
}
