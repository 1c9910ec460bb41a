package installplan

import (
	"context"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/group"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// workers is the number of plans that are executed concurrently.
const workers = 12

// SetupWithManager registers the controller. catalogs enqueues plans when the content of a catalog changes; changes
// enqueues the plans that Concerned returns.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, catalogs, changes source.Source) error {
	if err := provided.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	later := builder.WithPredicates(kit.DropExisting())
	created := builder.WithPredicates(kit.DropExisting(), predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	})
	waits := &fairqueue.Waits{}
	return ctrl.NewControllerManagedBy(mgr).
		Named("installplan").
		For(&operatorsv1alpha1.InstallPlan{}, builder.WithPredicates(r.own.DropStatuses())).
		Watches(&operatorsv1alpha1.InstallPlan{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), created). // a new plan may supersede other plans
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), later).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.using), later).
		Watches(&apiregistrationv1.APIService{}, handler.EnqueueRequestsFromMapFunc(r.claiming), later).
		WatchesRawSource(catalogs).
		WatchesRawSource(changes).
		WatchesRawSource(source.Func(r.large.waker.Start)).
		WithOptions(fairqueue.Options(mgr, workers, fairqueue.RetryLimiter(fairqueue.LastRetry), waits)).
		Complete(waits.Measure(r))
}

// Unfinished lists the plans of a namespace that are neither complete nor failed. If namespace is empty, it lists those
// of all namespaces.
func (r *Reconciler) Unfinished(ctx context.Context, namespace string) []reconcile.Request {
	return r.unfinished(ctx, kit.Any, client.InNamespace(namespace))
}

func (r *Reconciler) unfinished(ctx context.Context, match func(*operatorsv1alpha1.InstallPlan) bool, opts ...client.ListOption) []reconcile.Request {
	return kit.Matching(ctx, r.Client, &operatorsv1alpha1.InstallPlanList{}, func(ip *operatorsv1alpha1.InstallPlan) bool {
		return !finished(ip) && match(ip)
	}, opts...)
}

// Concerned lists the unfinished plans that a change to RBAC, a ServiceAccount or a Namespace affects. before is nil
// for a new object, and after is nil for a deleted one.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	if (before == nil || after == nil) && r.isCRDAccount(before, after) {
		return r.Unfinished(ctx, metav1.NamespaceAll)
	}
	isAccount := false // whether the object is the account of an OperatorGroup
	out := r.interests.Concerned(ctx, r.Default.Lookup(r.Client), before, after, func(ctx context.Context, og client.Object) []reconcile.Request {
		isAccount = true
		return r.inNamespace(ctx, og)
	})
	if sa, ok := before.(*corev1.ServiceAccount); ok && after == nil && !isAccount {
		out = append(out, r.inNamespace(ctx, sa)...) // webhooks of plans could make workloads run as this ServiceAccount
	}
	return out
}

// isCRDAccount reports whether one of the objects is the installation's CRD account.
func (r *Reconciler) isCRDAccount(objs ...client.Object) bool {
	return slices.ContainsFunc(objs, func(obj client.Object) bool {
		sa, ok := obj.(*corev1.ServiceAccount)
		return ok && client.ObjectKeyFromObject(sa) == r.CRDAccount
	})
}

func (r *Reconciler) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.unfinished(ctx, func(ip *operatorsv1alpha1.InstallPlan) bool { return ip.UID != obj.GetUID() }, client.InNamespace(obj.GetNamespace()))
}

// using returns requests for the plans that install a CustomResourceDefinition or contain an object of its kind. It
// also returns requests for plans whose steps the cache does not show yet, because the later event for such a plan's
// own status update does not wake the plan.
func (r *Reconciler) using(ctx context.Context, obj client.Object) []reconcile.Request {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil
	}
	return r.unfinished(ctx, func(ip *operatorsv1alpha1.InstallPlan) bool {
		return len(ip.Status.Plan) == 0 || slices.ContainsFunc(ip.Status.Plan, func(s *operatorsv1alpha1.Step) bool { return usedBy(crd, s) })
	})
}

// claiming returns requests for the plans that install a CustomResourceDefinition in a group that an APIService claims.
func (r *Reconciler) claiming(ctx context.Context, obj client.Object) []reconcile.Request {
	api, ok := obj.(*apiregistrationv1.APIService)
	if !ok || !execute.Claims(api) {
		return nil
	}
	return r.unfinished(ctx, func(ip *operatorsv1alpha1.InstallPlan) bool {
		return slices.ContainsFunc(ip.Status.Plan, func(s *operatorsv1alpha1.Step) bool {
			_, apiGroup, _ := strings.Cut(s.Resource.Name, ".")
			return s.Resource.Group == apiextensionsv1.GroupName && group.Same(apiGroup, api.Spec.Group)
		})
	})
}

func usedBy(crd *apiextensionsv1.CustomResourceDefinition, s *operatorsv1alpha1.Step) bool {
	if s.Resource.Group == apiextensionsv1.GroupName {
		_, apiGroup, _ := strings.Cut(s.Resource.Name, ".")
		// In an API group below k8s.io, an existing CustomResourceDefinition can rule out those of other owners
		// (execute.Served).
		return s.Resource.Name == crd.Name || group.Community(apiGroup) && group.Same(apiGroup, crd.Spec.Group)
	}
	return s.Resource.Group == crd.Spec.Group && s.Resource.Kind == crd.Spec.Names.Kind
}
