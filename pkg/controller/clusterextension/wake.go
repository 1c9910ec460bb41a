package clusterextension

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
)

// workers is the number of extensions that are reconciled concurrently.
const workers = 12

// SetupWithManager registers the controller. catalogs enqueues what All returns when the content of a catalog changes;
// changes enqueues the extensions that Concerned returns.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, catalogs, changes source.Source) error {
	if err := mgr.Add(r.watches); err != nil {
		return fmt.Errorf("add the watches: %w", err)
	}
	// The controller's own changes of the status wake nothing.
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	return ctrl.NewControllerManagedBy(mgr).
		Named("clusterextension").
		For(&olmv1.ClusterExtension{}, changed).
		Watches(&olmv1.ClusterCatalog{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
			return r.All(ctx, "")
		}), builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.using)).
		Watches(&apiregistrationv1.APIService{}, handler.EnqueueRequestsFromMapFunc(r.using)).
		WatchesRawSource(source.Func(r.watches.enqueue)).
		WatchesRawSource(catalogs).
		WatchesRawSource(changes).
		WithOptions(fairqueue.Options(workers, fairqueue.RetryLimiter(fairqueue.LastRetry))).
		Complete(r)
}

// All lists all extensions: each catalog can affect each of them. ClusterCatalogs have no namespace.
func (r *Reconciler) All(ctx context.Context, _ string) []reconcile.Request {
	return r.matching(ctx, kit.Any)
}

func (r *Reconciler) matching(ctx context.Context, match func(*olmv1.ClusterExtension) bool) []reconcile.Request {
	return kit.Matching(ctx, r.Client, &olmv1.ClusterExtensionList{}, match)
}

// Concerned lists the extensions that a change to RBAC, a ServiceAccount or a Namespace affects: those whose permissions it
// may change, and the one that owns the object. before is nil for a new object, and after is nil for a deleted one.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	out := append(r.interests.Concerned(before, after), ownersOf(before, after)...)
	obj := kit.Latest(before, after)
	switch obj.(type) {
	case *corev1.ServiceAccount:
		if before != nil && after != nil {
			return out
		}
		return append(out, r.matching(ctx, func(ext *olmv1.ClusterExtension) bool { return ext.Spec.Namespace == obj.GetNamespace() })...)
	case *corev1.Namespace:
		if before != nil && after != nil && before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp()) {
			return out
		}
		return append(out, r.matching(ctx, func(ext *olmv1.ClusterExtension) bool { return ext.Spec.Namespace == obj.GetName() })...)
	}
	return out
}

// ownersOf returns requests for the extensions that own an object.
func ownersOf(objs ...client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, obj := range objs {
		if obj == nil {
			continue
		}
		for _, ref := range obj.GetOwnerReferences() {
			if isExtension(ref) {
				out = append(out, kit.Request("", ref.Name))
			}
		}
	}
	return out
}

func isExtension(ref metav1.OwnerReference) bool {
	return ref.Kind == olmv1.KindClusterExtension && ref.APIVersion == olmv1.GroupVersion.String()
}

// using returns requests for the extensions that own a CustomResourceDefinition or APIService, or wait for a kind.
func (r *Reconciler) using(ctx context.Context, obj client.Object) []reconcile.Request {
	names := map[string]bool{}
	r.memory.Each(func(name string, is remembered) { names[name] = is.awaitsKinds })
	return append(ownersOf(obj), r.matching(ctx, func(ext *olmv1.ClusterExtension) bool { return names[ext.Name] })...)
}
