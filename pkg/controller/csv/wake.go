package csv

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/fairqueue"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// workers is how many ClusterServiceVersions are reconciled concurrently; workers mostly wait for responses.
const workers = 16

// SetupWithManager registers watches of everything that a ClusterServiceVersion can wait for. changes wakes those
// that Concerned returns.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, changes source.Source) error {
	if err := indexLineage(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("csv").
		WithOptions(fairqueue.Options(workers, nil)).
		For(&operatorsv1alpha1.ClusterServiceVersion{}).
		Watches(&operatorsv1alpha1.ClusterServiceVersion{}, handler.EnqueueRequestsFromMapFunc(r.neighbors)).
		Watches(&operatorsv1alpha1.Subscription{}, handler.EnqueueRequestsFromMapFunc(r.subscribed)).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace)).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.deployed)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.naming)).
		Watches(&apiregistrationv1.APIService{}, handler.EnqueueRequestsFromMapFunc(r.serving)).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.calledThrough)).
		Watches(&admissionregistrationv1.ValidatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.calling)).
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(r.calling)).
		WatchesRawSource(changes).
		Complete(r)
}

// matching lists the live ClusterServiceVersions that match.
func (r *Reconciler) matching(ctx context.Context, match func(*operatorsv1alpha1.ClusterServiceVersion) bool, opts ...client.ListOption) []reconcile.Request {
	return kit.Matching(ctx, r.Client, &operatorsv1alpha1.ClusterServiceVersionList{}, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return !isCopy(csv) && match(csv)
	}, opts...)
}

// isWaiting reports whether a CSV may wait for something, unless it is installed and there is nothing to note.
func isWaiting(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	return csv.DeletionTimestamp != nil || csv.Status.Phase != phaseSucceeded || csv.Status.Message != messageSucceeded
}

func (r *Reconciler) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, kit.Any, client.InNamespace(obj.GetNamespace()))
}

// subscribed wakes the CSV of a Subscription, whose config is part of the Deployments.
func (r *Reconciler) subscribed(_ context.Context, obj client.Object) []reconcile.Request {
	sub, ok := obj.(*operatorsv1alpha1.Subscription)
	if !ok {
		return nil
	}
	return append(request(sub.Namespace, sub.Status.InstalledCSV), request(sub.Namespace, sub.Status.CurrentCSV)...)
}

// deployed wakes the owner of a Deployment, and CSVs that wait for the deletion of another owner's Deployment with
// that name.
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
		return isWaiting(csv) && slices.ContainsFunc(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs,
			func(d operatorsv1alpha1.StrategyDeploymentSpec) bool { return d.Name == obj.GetName() })
	}, client.InNamespace(obj.GetNamespace()))
}

// naming wakes CSVs that own or require a CustomResourceDefinition, or wait for a kind that it may define.
func (r *Reconciler) naming(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		defs := csv.Spec.CustomResourceDefinitions
		named := func(d operatorsv1alpha1.CRDDescription) bool { return d.Name == obj.GetName() }
		return slices.ContainsFunc(defs.Owned, named) || slices.ContainsFunc(defs.Required, named) ||
			len(csv.Spec.NativeAPIs) > 0 && isWaiting(csv)
	})
}

// serving wakes the owner of an APIService, CSVs that wait for its name, and those that wait for an API.
func (r *Reconciler) serving(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(r.owning(ctx, obj), r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return isWaiting(csv) && (len(csv.Spec.NativeAPIs)+len(csv.Spec.APIServiceDefinitions.Required) > 0 || csv.OwnsAPIService(obj.GetName()))
	})...)
}

// calledThrough wakes the owner of a Service, and CSVs that wait for its name.
func (r *Reconciler) calledThrough(ctx context.Context, obj client.Object) []reconcile.Request {
	return append(r.owning(ctx, obj), r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return isWaiting(csv) && slices.ContainsFunc(serving.Served(csv), func(d serving.Deployment) bool {
			return cert.ServiceName(d.Name) == obj.GetName()
		})
	}, client.InNamespace(obj.GetNamespace()))...)
}

// calling wakes the owner of a webhook configuration, or else CSVs that wait for its name.
func (r *Reconciler) calling(ctx context.Context, obj client.Object) []reconcile.Request {
	if r.proven(obj) {
		return r.owning(ctx, obj)
	}
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return isWaiting(csv) && slices.ContainsFunc(csv.Spec.WebhookDefinitions, func(d operatorsv1alpha1.WebhookDescription) bool {
			return strings.HasPrefix(obj.GetName(), d.GenerateName+"-")
		})
	})
}

// owning finds the ClusterServiceVersion for which an object was created, and waiting ones of its lineage, which may
// have noted objects of an earlier version. Any user can put the labels of another ClusterServiceVersion on an
// object, so the object needs a proof for the lineage. If an object is changed or loses its proof, the old object
// wakes its ClusterServiceVersion.
func (r *Reconciler) owning(ctx context.Context, obj client.Object) []reconcile.Request {
	labels := obj.GetLabels()
	namespace, owner, mark := labels[names.LabelOwnerNamespace], labels[names.LabelOwner], labels[names.LabelLineage]
	if namespace == "" || owner == "" || !r.proven(obj) {
		return nil
	}
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return mayBe(csv, mark) && (ownerutil.LabelValue(csv.Name) == owner || isWaiting(csv))
	}, client.InNamespace(namespace))
}

// proven reports whether Remit created the object for the lineage in its label.
func (r *Reconciler) proven(obj client.Object) bool {
	mark := obj.GetLabels()[names.LabelLineage]
	return mark != "" && r.Proofs.Check(obj, mark) == nil
}

// mayBe reports whether a ClusterServiceVersion may belong to a lineage; ownerOf decides.
func mayBe(csv *operatorsv1alpha1.ClusterServiceVersion, mark string) bool {
	return csv.Labels[names.LabelLineage] == mark || directLineage(csv).Mark() == mark
}

func request(namespace, name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{kit.Request(namespace, name)}
}

// trackPermissions lets changes of the account's permissions, where the operator runs or works, wake the CSV,
// regardless of other lookups: if the API server refused something, the answer did not come from listers.
func (r *Reconciler) trackPermissions(s *scope) error {
	for _, namespace := range append(s.ruleScopes(), s.csv.Namespace) {
		granted := r.RBAC.LowerBound(rbac.ServiceAccount(s.account.Namespace, s.account.Name), namespace)
		if err := errors.Join(granted.ReadErrors...); err != nil {
			return preflight.AsAccountError(s.account, err)
		}
	}
	return nil
}

// Concerned lists the ClusterServiceVersions that a change of RBAC, a ServiceAccount or a Namespace concerns. before
// is nil for a new object, after for a deleted one.
func (r *Reconciler) Concerned(ctx context.Context, before, after client.Object) []reconcile.Request {
	return append(r.interests.Concerned(ctx, r.Default.Lookup(r.Client), before, after, r.inNamespace), r.marked(ctx, before, after)...)
}

// marked finds the CSVs that created the object and may have to do so again, and those that declare a ServiceAccount
// and check its labels.
func (r *Reconciler) marked(ctx context.Context, before, after client.Object) []reconcile.Request {
	obj := kit.Latest(before, after)
	update := before != nil && after != nil
	switch obj.(type) {
	case *corev1.Namespace:
		return nil
	case *corev1.ServiceAccount:
		if update && sameMarks(before, after) {
			return nil
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

func sameMarks(a, b client.Object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) &&
		a.GetAnnotations()[names.AnnotationProof] == b.GetAnnotations()[names.AnnotationProof]
}

// sameContent reports whether an update changed only fields that the API server sets.
func sameContent(before, after client.Object) bool {
	was, ok := before.DeepCopyObject().(client.Object)
	if !ok {
		return false
	}
	was.SetResourceVersion(after.GetResourceVersion())
	was.SetGeneration(after.GetGeneration())
	was.SetManagedFields(after.GetManagedFields())
	return equality.Semantic.DeepEqual(was, after)
}

// intercepting wakes CSVs whose webhooks could make something run as a ServiceAccount that was created or deleted.
// ServiceAccounts of other targets are found in the next reconcile.
func (r *Reconciler) intercepting(ctx context.Context, sa client.Object) []reconcile.Request {
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return slices.ContainsFunc(csv.Spec.WebhookDefinitions, func(d operatorsv1alpha1.WebhookDescription) bool {
			return d.Type == operatorsv1alpha1.MutatingAdmissionWebhook
		})
	}, client.InNamespace(sa.GetNamespace()))
}

func (r *Reconciler) declaring(ctx context.Context, sa client.Object) []reconcile.Request {
	return r.matching(ctx, func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return slices.Contains(bundle.ServiceAccountNames(csv), sa.GetName())
	}, client.InNamespace(sa.GetNamespace()))
}
