package operatorgroup

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// workers is the number of OperatorGroups that are reconciled concurrently.
const workers = 8

// cacheLag is the delay before a retry after a conflict, which gives the cache time to catch up.
const cacheLag = 100 * time.Millisecond

// SetupWithManager registers the index and the watches; the controller does not poll or resync. changes wakes the OperatorGroups that
// Concerned returns.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, changes source.Source) error {
	if err := Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("index Namespaces: %w", err)
	}
	own := builder.WithPredicates(predicate.Or(kit.SpecChanged(), predicate.And(statusChanged(), r.own.DropTexts()), publishedChanged(), handedOver(), keptChanged()))
	appearing := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	created := builder.WithPredicates(appearing)
	return ctrl.NewControllerManagedBy(mgr).Named("operatorgroup").
		WithOptions(fairqueue.Options(mgr, workers, nil)).
		For(&operatorsv1.OperatorGroup{}, own).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.siblings), builder.WithPredicates(appearing, kit.DropExisting())).
		Watches(&operatorsv1alpha1.ClusterServiceVersion{}, handler.EnqueueRequestsFromMapFunc(r.siblings), builder.WithPredicates(apisChanged(), kit.DropExisting())).
		Watches(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(r.owning), created).
		Watches(&operatorsv1alpha1.ClusterServiceVersion{}, handler.EnqueueRequestsFromMapFunc(r.answering), builder.WithPredicates(disowning())).
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.ungrouped), created).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.ungrouped), created).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.calling)).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.calling)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.defining), builder.WithPredicates(ownerChanged())).
		Watches(&apiregistrationv1.APIService{}, handler.EnqueueRequestsFromMapFunc(r.defining), builder.WithPredicates(ownerChanged())).
		WatchesRawSource(changes).
		Complete(r)
}

// statusChanged returns a predicate that accepts events that change the status, so that the controller corrects a
// status that another client wrote. A reconcile after the controller's own write reads only the cache and writes
// nothing, unless what is to be written is refused with another text each time; the texts that the controller wrote wake nothing.
func statusChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*operatorsv1.OperatorGroup)
		after, is := e.ObjectNew.(*operatorsv1.OperatorGroup)
		return ok && is && !equality.Semantic.DeepEqual(before.Status, after.Status)
	}}
}

// publishedChanged returns a predicate that accepts events that change the annotation with the provided APIs.
func publishedChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[annotationAPIs] != e.ObjectNew.GetAnnotations()[annotationAPIs]
	}}
}

// apisChanged returns a predicate that accepts events that change which APIs a ClusterServiceVersion provides.
func apisChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*operatorsv1alpha1.ClusterServiceVersion)
		after, is := e.ObjectNew.(*operatorsv1alpha1.ClusterServiceVersion)
		if !ok || !is {
			return false
		}
		return provides(before) != provides(after) || !sameSpec(before, after) && !provided.Same(before, after)
	}}
}

// sameSpec reports whether an update cannot have changed the spec. The cache can omit the spec of an object that is too large, with an
// annotation.
func sameSpec(before, after *operatorsv1alpha1.ClusterServiceVersion) bool {
	return before.Generation != 0 && before.Generation == after.Generation && before.UID == after.UID &&
		before.Annotations[names.AnnotationTooLarge] == after.Annotations[names.AnnotationTooLarge]
}

// handedOver returns a predicate that accepts events after which another manager, OLM v0 or Remit, manages the OperatorGroup.
func handedOver() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return scoped.LeftToOLM(e.ObjectOld) != scoped.LeftToOLM(e.ObjectNew)
	}}
}

// keptChanged returns a predicate that accepts events after which permissions that exceed the account are kept or removed.
func keptChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return scoped.KeepsExcess(e.ObjectOld) != scoped.KeepsExcess(e.ObjectNew)
	}}
}

// disowning returns a predicate that accepts events after which a ClusterServiceVersion no longer owns its objects: it was
// deleted, its deletion has begun, or it was labeled as a copy.
func disowning() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() ||
				e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || e.ObjectOld.GetLabels()[names.LabelCopiedFrom] != e.ObjectNew.GetLabels()[names.LabelCopiedFrom]
		},
	}
}

// answering returns requests for the OperatorGroups in the namespace of an object or, if it has none, for the namespace.
func (r *Reconciler) answering(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.answeringFor(ctx, obj.GetNamespace())
}

func (r *Reconciler) answeringFor(ctx context.Context, namespace string) []reconcile.Request {
	groups := kit.Matching(ctx, r.Client, &operatorsv1.OperatorGroupList{}, kit.Any[*operatorsv1.OperatorGroup], client.InNamespace(namespace))
	if len(groups) == 0 {
		return []reconcile.Request{kit.Request(namespace, "")}
	}
	return groups
}

// ungrouped returns a request for the namespace whose operator a binding belongs to, if it has no OperatorGroup: no request of
// an OperatorGroup examines the binding after a start. The label only names the namespace.
func (r *Reconciler) ungrouped(ctx context.Context, obj client.Object) []reconcile.Request {
	namespace := obj.GetLabels()[names.LabelOwnerNamespace]
	if namespace == "" {
		return nil
	}
	return slices.DeleteFunc(r.answeringFor(ctx, namespace), func(req reconcile.Request) bool { return req.Name != "" })
}

// calling returns requests for the OperatorGroups of the namespace whose operator a webhook configuration belongs to or, if it has none,
// for the namespace. The label only names the namespace.
func (r *Reconciler) calling(ctx context.Context, obj client.Object) []reconcile.Request {
	labels := obj.GetLabels()
	if labels[names.LabelOwnerKind] != operatorsv1alpha1.ClusterServiceVersionKind || labels[names.LabelOwnerNamespace] == "" {
		return nil
	}
	return r.answeringFor(ctx, labels[names.LabelOwnerNamespace])
}

// siblings returns requests for the other OperatorGroups in the namespace of an OperatorGroup that was created or
// deleted, or for all in the namespace of a ClusterServiceVersion.
func (r *Reconciler) siblings(ctx context.Context, obj client.Object) []reconcile.Request {
	return kit.Matching(ctx, r.Client, &operatorsv1.OperatorGroupList{},
		func(og *operatorsv1.OperatorGroup) bool { return og.UID != obj.GetUID() }, client.InNamespace(obj.GetNamespace()))
}

// Concerned lists the OperatorGroups that a change to RBAC, a ServiceAccount or a Namespace affects. before is nil for
// a new object, and after is nil for a deleted one.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	return r.interests.ConcernedGroups(ctx, r.Default.Lookup(r.Client), before, after)
}
