package csv

import (
	"context"
	"slices"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// lag is how long after an RBAC change those that wait for rights are woken once more: the API
// server's authorizer reads RBAC through informers too, and ours may be ahead of it.
const lag = time.Second

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

type match func(csv *operatorsv1alpha1.ClusterServiceVersion) bool

// matching lists the live ClusterServiceVersions that match.
func (r *Reconciler) matching(ctx context.Context, m match, opts ...client.ListOption) []reconcile.Request {
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := r.client.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache is not there yet: its first list brings every one of them anyway
	}
	var out []reconcile.Request
	for i := range list.Items {
		if csv := &list.Items[i]; !isCopy(csv) && m(csv) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(csv)})
		}
	}
	return out
}

// settled says that nothing is waited for: it is installed, and there is nothing to note.
func settled(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return csv.DeletionTimestamp == nil && csv.Status.Phase == phaseSucceeded && csv.Status.Message == messageSucceeded
}

func waits(csv *operatorsv1alpha1.ClusterServiceVersion) bool { return !settled(csv) }

// concerns says whether the namespace is the operator's own or a target, as far as is known.
func concerns(csv *operatorsv1alpha1.ClusterServiceVersion, namespace string) bool {
	targets, known := csv.Annotations[names.AnnotationTargetNamespaces]
	return csv.Namespace == namespace || !known || targets == "" || slices.Contains(strings.Split(targets, ","), namespace)
}

func (r *Reconciler) unsettled(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.matching(ctx, waits)
}

func (r *Reconciler) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, func(*operatorsv1alpha1.ClusterServiceVersion) bool { return true }, client.InNamespace(obj.GetNamespace()))
}

// replaced wakes what a ClusterServiceVersion replaces.
func (r *Reconciler) replaced(_ context.Context, obj client.Object) []reconcile.Request {
	csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion)
	if !ok || csv.Spec.Replaces == "" {
		return nil
	}
	return request(csv.Namespace, csv.Spec.Replaces)
}

// subscribed wakes what a Subscription brought: its config goes into the Deployments.
func (r *Reconciler) subscribed(_ context.Context, obj client.Object) []reconcile.Request {
	sub, ok := obj.(*operatorsv1alpha1.Subscription)
	if !ok {
		return nil
	}
	out := request(sub.Namespace, sub.Status.InstalledCSV)
	if sub.Status.CurrentCSV != sub.Status.InstalledCSV {
		out = append(out, request(sub.Namespace, sub.Status.CurrentCSV)...)
	}
	return out
}

// deployed wakes the owner of a Deployment, and whoever waits for a stranger's of that name to go.
func (r *Reconciler) deployed(ctx context.Context, obj client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Kind == operatorsv1alpha1.ClusterServiceVersionKind {
			out = append(out, request(obj.GetNamespace(), ref.Name)...)
		}
	}
	if len(out) > 0 {
		return out
	}
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return waits(csv) && slices.ContainsFunc(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs,
			func(d operatorsv1alpha1.StrategyDeploymentSpec) bool { return d.Name == obj.GetName() })
	}, client.InNamespace(obj.GetNamespace()))
}

// naming wakes those that own or require a CustomResourceDefinition, or wait for a kind that it may bring.
func (r *Reconciler) naming(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		defs := csv.Spec.CustomResourceDefinitions
		named := func(d operatorsv1alpha1.CRDDescription) bool { return d.Name == obj.GetName() }
		return slices.ContainsFunc(defs.Owned, named) || slices.ContainsFunc(defs.Required, named) ||
			len(csv.Spec.NativeAPIs) > 0 && waits(csv)
	})
}

func (r *Reconciler) requiring(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return waits(csv) && len(csv.Spec.NativeAPIs)+len(csv.Spec.APIServiceDefinitions.Required) > 0
	})
}

// owning finds the ClusterServiceVersion whose owner labels an object carries.
func (r *Reconciler) owning(ctx context.Context, obj client.Object) []reconcile.Request {
	labels := obj.GetLabels()
	namespace, owner := labels[names.LabelOwnerNamespace], labels[names.LabelOwner]
	if namespace == "" || owner == "" {
		return nil
	}
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return ownerutil.LabelValue(csv.Name) == owner
	}, client.InNamespace(namespace))
}

func request(namespace, name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// accountHandler wakes the CSVs of a ServiceAccount's namespace, be it the account or the operator's,
// and forgets the token of one that is gone.
func (r *Reconciler) accountHandler() handler.EventHandler {
	wake := func(ctx context.Context, q queue, obj client.Object, any bool) {
		requests := r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool { return any || waits(csv) },
			client.InNamespace(obj.GetNamespace()))
		if client.ObjectKeyFromObject(obj) == r.lookup.Default.Account {
			requests = append(requests, r.unsettled(ctx, obj)...)
		}
		for _, req := range requests {
			q.Add(req)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				wake(ctx, q, e.Object, true)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { wake(ctx, q, e.ObjectNew, false) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.accounts.Forget(client.ObjectKeyFromObject(e.Object))
			wake(ctx, q, e.Object, true)
		},
	}
}

// rbacHandler wakes the owner of a changed object, and those that wait for rights. Where something
// was taken away, those that are installed look as well whether the account still covers them; but
// not for every ClusterRole, of which aggregation changes some at every install.
func (r *Reconciler) rbacHandler() handler.EventHandler {
	wake := func(ctx context.Context, q queue, obj client.Object, taken bool) {
		for _, req := range r.owning(ctx, obj) {
			q.Add(req)
		}
		if _, ok := obj.(*rbacv1.ClusterRole); ok {
			taken = false
		}
		namespace := obj.GetNamespace()
		for _, req := range r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
			return (taken || waits(csv)) && (namespace == "" || concerns(csv, namespace))
		}) {
			q.Add(req)
			q.AddAfter(req, lag)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				wake(ctx, q, e.Object, false)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { wake(ctx, q, e.ObjectNew, true) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, q, e.Object, true) },
	}
}
