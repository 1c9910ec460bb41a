package csv

import (
	"context"
	"errors"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// workers is the number of ClusterServiceVersions that are reconciled concurrently. It is high because a reconcile
// mostly waits for responses.
const workers = 16

// maxCompared is the number of entries of a list in a ClusterServiceVersion that are indexed.
const maxCompared = 200

// SetupWithManager registers watches for everything that a ClusterServiceVersion can wait for. changes is the source
// that wakes the ClusterServiceVersions that Concerned returns.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, changes source.Source) error {
	if err := indexFields(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	// Nothing reads the texts of these objects, and what changes them can change with each attempt (docs/adr/0024).
	texts, later := builder.WithPredicates(status.DropTexts(), kit.DropExisting()), builder.WithPredicates(kit.DropExisting())
	return r.watchCopies(ctrl.NewControllerManagedBy(mgr).Named("csv").
		WithOptions(fairqueue.Options(mgr, workers, nil)).
		For(&operatorsv1alpha1.ClusterServiceVersion{}, builder.WithPredicates(r.orphaning.Predicate(), r.replaced.DropTexts())).
		Watches(&operatorsv1alpha1.ClusterServiceVersion{}, handler.EnqueueRequestsFromMapFunc(r.neighbors), texts).
		Watches(&operatorsv1alpha1.Subscription{}, handler.EnqueueRequestsFromMapFunc(r.subscribed), texts).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.grouped), builder.WithPredicates(groupChanged(), kit.DropExisting())).
		Watches(&operatorsv2.OperatorCondition{}, handler.EnqueueRequestsFromMapFunc(r.conditioned), builder.WithPredicates(holdChanged(), kit.DropExisting())).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.deployed), builder.WithPredicates(r.deploymentChanged(), kit.DropExisting())).
		Watches(&operatorsv1alpha1.ClusterServiceVersion{}, handler.EnqueueRequestsFromMapFunc(r.rivalsOf), texts).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.rivalsOf), later).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.rivalsOf), later).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.naming), later).
		Watches(&apiregistrationv1.APIService{}, handler.EnqueueRequestsFromMapFunc(r.serving), later).
		Watches(&apiregistrationv1.APIService{}, handler.EnqueueRequestsFromMapFunc(r.orphaned)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.orphaned)).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.orphaned)).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.orphaned)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.calledThrough), later).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.calling), later).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.calling), later).
		WatchesRawSource(source.Func(r.secrets.Waker.Start)).
		WatchesRawSource(changes)).
		Complete(r)
}

// matching returns requests for the ClusterServiceVersions for which match returns true, except copies.
func (r *Reconciler) matching(ctx context.Context, match func(*operatorsv1alpha1.ClusterServiceVersion) bool, opts ...client.ListOption) []reconcile.Request {
	return kit.Matching(ctx, r.Client, &operatorsv1alpha1.ClusterServiceVersionList{}, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return !isCopy(csv) && match(csv)
	}, opts...)
}

// isWaiting reports whether a CSV may be waiting for something. This applies to every CSV except an installed one
// without notes.
func isWaiting(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return csv.DeletionTimestamp != nil || csv.Status.Phase != phaseSucceeded || csv.Status.Message != messageSucceeded
}

func (r *Reconciler) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, kit.Any, client.InNamespace(obj.GetNamespace()))
}

// subscribed returns requests for a Subscription's CSVs, because the Subscription's config is part of their
// Deployments.
func (r *Reconciler) subscribed(_ context.Context, obj client.Object) []reconcile.Request {
	sub, ok := obj.(*operatorsv1alpha1.Subscription)
	if !ok {
		return nil
	}
	return append(request(sub.Namespace, sub.Status.InstalledCSV), request(sub.Namespace, sub.Status.CurrentCSV)...)
}

// deployed returns requests for the CSV that owns a Deployment or, if no CSV owns it, for the CSVs that may be waiting
// for the deletion of a Deployment with this name.
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
	return r.namedBy(ctx, byDeployment, obj, isWaiting)
}

// naming returns requests for CSVs that own or require a CustomResourceDefinition, and for CSVs that may be waiting for
// a kind that it defines.
func (r *Reconciler) naming(ctx context.Context, obj client.Object) []reconcile.Request {
	return slices.Concat(r.anywhere(ctx, kit.Any, byDefinition+obj.GetName()), r.amongMany(ctx, kit.Any, byDefinition, obj.GetName()),
		r.anywhere(ctx, isWaiting, byNativeAPI))
}

// serving returns requests for the CSV that owns an APIService, for CSVs that are waiting to create an APIService with
// this name, and for CSVs that are waiting for an API.
func (r *Reconciler) serving(ctx context.Context, obj client.Object) []reconcile.Request {
	return slices.Concat(r.owning(ctx, obj), r.anywhere(ctx, isWaiting, byAPIService+obj.GetName(), byNativeAPI, byRequiredAPI),
		r.amongMany(ctx, isWaiting, byAPIService, obj.GetName()))
}

// calledThrough returns requests for the CSV that owns a Service, and for CSVs that are waiting to create a Service
// with this name.
func (r *Reconciler) calledThrough(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(r.owning(ctx, obj), r.namedBy(ctx, byService, obj, isWaiting)...)
}

// calling returns requests for the CSV that owns a webhook configuration or, if Remit did not create it, for CSVs that
// are waiting to create a webhook configuration with this name.
func (r *Reconciler) calling(ctx context.Context, obj client.Object) []reconcile.Request {
	if r.proven(obj) {
		return r.owning(ctx, obj)
	}
	var keys, prefixes []string
	name := obj.GetName()
	for i := range len(name) {
		if name[i] == '-' {
			keys, prefixes = append(keys, byConfiguration+name[:i]), append(prefixes, name[:i])
		}
	}
	return append(r.anywhere(ctx, isWaiting, keys...), r.amongMany(ctx, isWaiting, byConfiguration, prefixes...)...)
}

// owning returns requests for the ClusterServiceVersion for which an object was created, and for waiting CSVs of its
// lineage, which may have notes about objects of an earlier version. Any user can put the labels of another
// ClusterServiceVersion on an object, so the object needs a proof for the lineage. Because an update can remove the
// labels or the proof, callers also pass the object as it was before the update.
func (r *Reconciler) owning(ctx context.Context, obj client.Object) []reconcile.Request {
	labels := obj.GetLabels()
	namespace, owner, mark := labels[names.LabelOwnerNamespace], labels[names.LabelOwner], labels[names.LabelLineage]
	if namespace == "" || owner == "" || !r.proven(obj) {
		return nil
	}
	ours := func(csv *operatorsv1alpha1.ClusterServiceVersion) bool { return mayBe(csv, mark) }
	return append(r.keyed(ctx, namespace, byOwner+owner, ours), r.keyed(ctx, namespace, byLineage+names.ShortMark(mark), func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return isWaiting(csv) && ours(csv) && ownerutil.LabelValue(csv.Name) != owner
	}, client.Limit(maxWoken))...)
}

// proven reports whether Remit created the object for the lineage in its label.
func (r *Reconciler) proven(obj client.Object) bool {
	return ownerutil.IsProven(obj, r.Proofs)
}

// mayBe reports whether a ClusterServiceVersion may belong to a lineage; ownerOf makes the final decision.
func mayBe(csv client.Object, mark string) bool {
	return names.ShortMark(csv.GetLabels()[names.LabelLineage]) == names.ShortMark(mark) || directLineage(csv).IsMark(mark)
}

func request(namespace, name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{kit.Request(namespace, name)}
}

// trackPermissions looks up the account's permissions in the CSV's namespace and the targets, so that changes to these
// permissions wake the CSV. This is needed because nothing is tracked when the API server refuses a request.
// trackPermissions returns an error if the permissions cannot be read.
func (r *Reconciler) trackPermissions(s *scope) error {
	for _, namespace := range append(s.ruleScopes(), s.csv.Namespace) {
		granted := r.RBAC.LowerBound(rbac.ServiceAccount(s.account.Namespace, s.account.Name), namespace)
		if err := errors.Join(granted.ReadErrors...); err != nil {
			return preflight.AsAccountError(s.account.Identity(), err)
		}
	}
	return nil
}

// Concerned lists the ClusterServiceVersions that a change to RBAC, a ServiceAccount or a Namespace affects. before is
// nil for a new object, and after is nil for a deleted one.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	return append(r.interests.Concerned(ctx, r.Default.Lookup(r.Client), before, after, r.governed), r.marked(ctx, before, after)...)
}

// marked returns requests for the CSVs for which an RBAC object was created and that may have to write it again. For a
// ServiceAccount, it returns requests for the CSVs that declare the ServiceAccount, and for those whose webhooks could
// make Pods run as it.
func (r *Reconciler) marked(ctx context.Context, before, after client.Object) []reconcile.Request {
	obj := kit.Latest(before, after)
	update := before != nil && after != nil
	switch obj.(type) {
	case *corev1.Namespace:
		return nil
	case *corev1.ServiceAccount:
		if update && sameMarks(before, after) {
			return nil // only labels that Remit does not read, or nothing, changed
		}
		return append(r.declaring(ctx, obj), r.intercepting(ctx, obj)...)
	}
	if !update {
		return r.owning(ctx, obj)
	}
	isMarked := before.GetLabels()[names.LabelLineage] != "" || after.GetLabels()[names.LabelLineage] != ""
	if !isMarked || sameContent(before, after) {
		return nil
	}
	out := r.owning(ctx, after)
	if !sameMarks(before, after) {
		out = append(out, r.owning(ctx, before)...)
	}
	return out
}

// isMark reports whether a label is one that Remit writes on the objects of an install.
func isMark(key string) bool {
	switch key {
	case names.LabelManaged, names.LabelLineage, names.LabelOwner, names.LabelOwnerNamespace, names.LabelOwnerKind, names.LabelPermissionsHash:
		return true
	}
	return strings.HasPrefix(key, names.LabelComponentPrefix)
}

// differ reports whether a has a mark that b does not have.
func differ(a, b map[string]string) bool {
	for key, value := range a {
		if was, ok := b[key]; isMark(key) && (!ok || was != value) {
			return true
		}
	}
	return false
}

// sameMarks reports whether two states of an object belong to the same owners. Other labels do not count: any change to a label of
// a ServiceAccount would otherwise be compared with all CSVs of its namespace.
func sameMarks(a, b client.Object) bool {
	return !differ(a.GetLabels(), b.GetLabels()) && !differ(b.GetLabels(), a.GetLabels()) && equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) &&
		a.GetAnnotations()[names.AnnotationProof] == b.GetAnnotations()[names.AnnotationProof]
}

// sameContent reports whether an update of an RBAC object changed only fields that the API server sets.
func sameContent(before, after client.Object) bool {
	was, is := objectMetaOf(before), objectMetaOf(after)
	was.ResourceVersion, was.Generation, was.ManagedFields = is.ResourceVersion, is.Generation, is.ManagedFields
	return equality.Semantic.DeepEqual(was, is) && rbac.SameContent(before, after)
}

func objectMetaOf(obj client.Object) (out metav1.ObjectMeta) {
	if accessor, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if meta, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return *meta
		}
	}
	return out
}

// intercepting returns requests for CSVs whose webhooks could make Pods run as a ServiceAccount that was created or
// deleted. It covers only the ServiceAccount's own namespace: CSVs in other namespaces check the ServiceAccounts in
// their target namespaces when they are next reconciled.
func (r *Reconciler) intercepting(ctx context.Context, sa client.Object) []reconcile.Request {
	return r.keyed(ctx, sa.GetNamespace(), byMutation, kit.Any)
}

// declaring returns requests for the CSVs that declare a ServiceAccount.
func (r *Reconciler) declaring(ctx context.Context, sa client.Object) []reconcile.Request {
	return r.namedBy(ctx, byServiceAccount, sa, kit.Any)
}
