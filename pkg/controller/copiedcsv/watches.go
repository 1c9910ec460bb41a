package copiedcsv

import (
	"context"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// workers is the number of sources that are reconciled concurrently; each namespace can use one worker.
const workers = 8

// indexSource is the index of copies by their source.
const indexSource = "source"

// sourceKey is the value of the index for the copies of a source.
func sourceKey(source types.NamespacedName) string { return source.String() }

// sourceOf returns the source of a copy: it has the copy's name, and its namespace is in a label of the copy.
func sourceOf(copied client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: copied.GetLabels()[names.LabelCopiedFrom], Name: copied.GetName()}
}

// Index adds the index that a Reconciler needs to the cache of kit.NewCopies.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, kit.Copy(), indexSource, func(obj client.Object) []string { return []string{sourceKey(sourceOf(obj))} })
}

// indexName is the index of ClusterServiceVersions by their name.
const indexName = "remit.dev/name"

// IndexSources adds the index that the watches of a Reconciler need to the cache of the manager. Every event of a
// copy looks up ClusterServiceVersions by name, which must not scan all of them.
func IndexSources(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &operatorsv1alpha1.ClusterServiceVersion{}, indexName, func(obj client.Object) []string { return []string{obj.GetName()} })
}

// SetupWithManager registers the watches; the controllers do not poll or resync. copies is the cache of kit.NewCopies. changes
// wakes the sources that Concerned returns.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, copies cache.Cache, changes source.Source) error {
	config := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == configName })
	err := ctrl.NewControllerManagedBy(mgr).Named("copiedcsv").
		WithOptions(fairqueue.Options(mgr, workers, fairqueue.RetryLimiter(fairqueue.LastRetry))).
		For(&operatorsv1alpha1.ClusterServiceVersion{}).
		Watches(&operatorsv1alpha1.ClusterServiceVersion{}, handler.EnqueueRequestsFromMapFunc(r.namesakes), builder.WithPredicates(appearing(), kit.DropExisting())).
		Watches(&operatorsv1alpha1.InstallPlan{}, handler.EnqueueRequestsFromMapFunc(r.planned), builder.WithPredicates(planning(), kit.DropExisting())).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.Or(kit.SpecChanged(), predicate.AnnotationChangedPredicate{}), kit.DropExisting())).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.global), builder.WithPredicates(changing(), kit.DropExisting())).
		Watches(&operatorsv1.OLMConfig{}, handler.EnqueueRequestsFromMapFunc(r.global), builder.WithPredicates(config, kit.SpecChanged(), kit.DropExisting())).
		WatchesRawSource(source.Kind[client.Object](copies, kit.Copy(), handler.EnqueueRequestsFromMapFunc(r.copied), r.forgetDeleted())).
		WatchesRawSource(changes).
		Complete(r)
	if err != nil {
		return err
	}
	return r.setupConfig(mgr, config)
}

// appearing accepts creations and deletions.
func appearing() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// planning accepts the creation and deletion of InstallPlans, and updates that change which ClusterServiceVersions a plan still
// has to create.
func planning() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: isPlanning}
}

func isPlanning(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*operatorsv1alpha1.InstallPlan)
	after, is := e.ObjectNew.(*operatorsv1alpha1.InstallPlan)
	return ok && is && !slices.Equal(toInstall(before), toInstall(after))
}

// changing accepts Namespaces that are created or deleted, or whose deletion begins. Concerned handles the labels, and the
// OperatorGroups that list the Namespace.
func changing() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	}}
}

// forgetDeleted returns a predicate that accepts all events and forgets deleted copies.
func (r *Reconciler) forgetDeleted() predicate.Predicate {
	return predicate.Funcs{DeleteFunc: func(e event.DeleteEvent) bool {
		r.seen.Delete(e.Object.GetUID())
		return true
	}}
}

// copied returns requests for the source of a copy and for its namesakes, because the copy may have taken or released the name.
func (r *Reconciler) copied(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(r.namesakes(ctx, obj), reconcile.Request{NamespacedName: sourceOf(obj)})
}

// namesakes returns requests for the ClusterServiceVersions that have the name of the object and whose OperatorGroup targets other
// namespaces than their own. That of an operator that is installed in each of many namespaces usually does not, so its installs wake
// no others.
func (r *Reconciler) namesakes(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return csv.Namespace != obj.GetNamespace() && r.reaching.Get(client.ObjectKeyFromObject(csv))
	}, client.MatchingFields{indexName: obj.GetName()})
}

// planned returns requests for the ClusterServiceVersions in other namespaces that have the name of one in a plan.
func (r *Reconciler) planned(ctx context.Context, obj client.Object) []reconcile.Request {
	plan, ok := obj.(*operatorsv1alpha1.InstallPlan)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	for _, name := range plan.Spec.ClusterServiceVersionNames[:min(len(plan.Spec.ClusterServiceVersionNames), MaxPlanned)] {
		named := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: plan.Namespace, Name: name}}
		out = append(out, r.namesakes(ctx, named)...)
	}
	return out
}

func (r *Reconciler) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, kit.Any, client.InNamespace(obj.GetNamespace()))
}

// global returns requests for the ClusterServiceVersions of the OperatorGroups that target all namespaces.
func (r *Reconciler) global(ctx context.Context, _ client.Object) []reconcile.Request {
	groups := &operatorsv1.OperatorGroupList{}
	if err := r.Client.List(ctx, groups, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache is not synced yet; its initial list enqueues all objects
	}
	var out []reconcile.Request
	all := slices.DeleteFunc(groups.Items, func(og operatorsv1.OperatorGroup) bool { return !scoped.TargetsAll(&og) })
	all = scoped.OnePerNamespace(all)
	for i := range all {
		out = append(out, r.inNamespace(ctx, &all[i])...)
	}
	return out
}

func (r *Reconciler) matching(ctx context.Context, match func(*operatorsv1alpha1.ClusterServiceVersion) bool, opts ...client.ListOption) []reconcile.Request {
	return kit.Matching(ctx, r.Client, &operatorsv1alpha1.ClusterServiceVersionList{}, match, opts...)
}

// Concerned lists the sources that a change to RBAC, a ServiceAccount or a Namespace affects. before is nil for a new object, and
// after is nil for a deleted one.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	return r.interests.Concerned(ctx, r.Default.Lookup(r.Client), before, after, r.inNamespace)
}
