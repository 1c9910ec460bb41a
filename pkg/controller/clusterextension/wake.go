package clusterextension

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// workers is the number of extensions that are reconciled concurrently.
const workers = 12

// SetupWithManager registers the controller. catalogs enqueues the extensions that Using returns when the content of a
// catalog or a bundle image changes. changes enqueues the extensions that Concerned returns.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, catalogs, changes source.Source) error {
	if err := mgr.Add(r.watches); err != nil {
		return fmt.Errorf("add the watches: %w", err)
	}
	// The controller's own changes to the status do not trigger a reconcile.
	changed := predicate.Or(kit.SpecChanged(), predicate.AnnotationChangedPredicate{})
	created := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	return ctrl.NewControllerManagedBy(mgr).
		Named("clusterextension").
		For(&olmv1.ClusterExtension{}, builder.WithPredicates(r.orphaning.Predicate(), changed)).
		Watches(&olmv1.ClusterCatalog{}, handler.EnqueueRequestsFromMapFunc(r.usingCatalog),
			builder.WithPredicates(predicate.Or(kit.SpecChanged(), predicate.LabelChangedPredicate{}), kit.DropExisting())).
		Watches(&olmv1.ClusterExtension{}, handler.EnqueueRequestsFromMapFunc(r.usingKind), builder.WithPredicates(installs())).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.usingKind), builder.WithPredicates(kit.DropExisting())).
		Watches(&apiregistrationv1.APIService{}, handler.EnqueueRequestsFromMapFunc(r.usingKind), builder.WithPredicates(kit.DropExisting())).
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.orphaned), builder.WithPredicates(created)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.orphaned), builder.WithPredicates(created)).
		WatchesRawSource(source.Func(r.watches.enqueue)).
		WatchesRawSource(catalogs).
		WatchesRawSource(changes).
		WithOptions(fairqueue.Options(mgr, workers, fairqueue.RetryLimiter(fairqueue.LastRetry))).
		Complete(r)
}

// Using lists the extensions that a change to a catalog's content may affect or, for a bundle image, those that use the image.
func (r *Reconciler) Using(ctx context.Context, change catalog.Change) []reconcile.Request {
	if change.Image != "" {
		return r.matching(ctx, func(ext *olmv1.ClusterExtension) bool {
			return slices.Contains(r.memory.Get(ext.Name).images, change.Image)
		})
	}
	k := &olmv1.ClusterCatalog{}
	if err := r.Client.Get(ctx, change.Catalog, k); err != nil {
		k.Name = change.Catalog.Name // the labels of a deleted catalog are unknown, but memory contains the extensions that used it
	}
	return r.usingCatalog(ctx, k)
}

// usingCatalog lists the extensions that a change to a catalog may affect: those that have used it, those that select it
// and whose package it has, and those for which no bundle was found, because their status describes what exists.
func (r *Reconciler) usingCatalog(ctx context.Context, obj client.Object) []reconcile.Request {
	snapshot, isRead := r.Catalogs.Get(types.NamespacedName{Name: obj.GetName()})
	labels := catalogLabels(obj)
	return r.matching(ctx, func(ext *olmv1.ClusterExtension) bool {
		if is := r.memory.Get(ext.Name); is.awaitsCatalogs || slices.Contains(is.catalogs, obj.GetName()) {
			return true
		}
		request, err := assess.Request(ext)
		return err == nil && request.Selects(labels) && (!isRead || snapshot.Packages[request.Package] != nil)
	})
}

func (r *Reconciler) matching(ctx context.Context, match func(*olmv1.ClusterExtension) bool) []reconcile.Request {
	return kit.Matching(ctx, r.Client, &olmv1.ClusterExtensionList{}, match)
}

// Concerned lists the extensions that a change to RBAC, a ServiceAccount or a Namespace affects: those whose permissions it
// may change, and the one that owns the object. before is nil for a new object, and after is nil for a deleted one.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	out := append(r.interests.Concerned(before, after), r.ownersOf(ctx, before, after)...)
	obj := kit.Latest(before, after)
	switch obj.(type) {
	case *corev1.ServiceAccount:
		if before != nil && after != nil && before.GetUID() == after.GetUID() { // if the UIDs differ, the ServiceAccount was recreated while the watch was interrupted
			return out
		}
		return append(out, r.usingAccount(ctx, client.ObjectKeyFromObject(obj))...)
	case *corev1.Namespace:
		if before != nil && after != nil && before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp()) {
			return out
		}
		return append(out, r.matching(ctx, func(ext *olmv1.ClusterExtension) bool { return ext.Spec.Namespace == obj.GetName() })...)
	}
	return out
}

// usingAccount returns requests for the extensions that name a ServiceAccount, or looked it up.
func (r *Reconciler) usingAccount(ctx context.Context, account types.NamespacedName) []reconcile.Request {
	return r.matching(ctx, func(ext *olmv1.ClusterExtension) bool {
		if ext.Spec.Namespace == account.Namespace && ext.Spec.ServiceAccount.Name == account.Name {
			return true
		}
		return slices.ContainsFunc(r.memory.Get(ext.Name).accounts, func(is types.NamespacedName) bool {
			return is == account || is == types.NamespacedName{Namespace: account.Namespace}
		})
	})
}

// ownersOf returns requests for the extensions that own an object. Owner references and labels only name candidates: anyone who
// can write an object can name any extension, and must not be able to wake that extension.
func (r *Reconciler) ownersOf(ctx context.Context, objs ...client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, obj := range objs {
		if obj == nil {
			continue
		}
		for _, name := range namedOwners(obj) {
			ext := &olmv1.ClusterExtension{}
			if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, ext); err != nil {
				continue // the extension does not exist, or the cache does not show it yet
			}
			owner := assess.Owner(ext, "")
			if owner.Proofs = r.Proofs; owner.Owns(obj) {
				out = append(out, kit.Request("", name))
			}
		}
	}
	return out
}

// namedOwners returns the names of the extensions that an object names as its owners.
func namedOwners(obj client.Object) []string {
	var out []string
	if labels := obj.GetLabels(); labels[names.LabelExtensionKind] == olmv1.KindClusterExtension {
		out = append(out, labels[names.LabelExtensionName])
	}
	for _, ref := range obj.GetOwnerReferences() {
		if isExtension(ref) && !slices.Contains(out, ref.Name) {
			out = append(out, ref.Name)
		}
	}
	return out
}

func isExtension(ref metav1.OwnerReference) bool {
	return ref.Kind == olmv1.KindClusterExtension && ref.APIVersion == olmv1.GroupVersion.String()
}

// installs selects the events of extensions that have installed another version, because other extensions may require
// that version.
func installs() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, ok := e.ObjectOld.(*olmv1.ClusterExtension)
			is, isToo := e.ObjectNew.(*olmv1.ClusterExtension)
			return ok && isToo && is.Status.Install != nil && (was.Status.Install == nil || was.Status.Install.Bundle != is.Status.Install.Bundle)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// usingKind returns requests for the extensions that own a CustomResourceDefinition or APIService, and for those that wait for
// a kind or an operator.
func (r *Reconciler) usingKind(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(r.ownersOf(ctx, obj), r.matching(ctx, func(ext *olmv1.ClusterExtension) bool { return r.memory.Get(ext.Name).awaitsKinds })...)
}
