package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	apigroup "github.com/remit-olm/remit/pkg/lib/group"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// labelAutomanaged is the label of APIServices that the API server itself maintains.
const labelAutomanaged = "kube-aggregator.kubernetes.io/automanaged"

// calledLists returns the list types of the objects that make the API server call an operator.
func calledLists() []client.ObjectList {
	return []client.ObjectList{
		&admissionregistrationv1.ValidatingWebhookConfigurationList{}, &admissionregistrationv1.MutatingWebhookConfigurationList{},
		&apiregistrationv1.APIServiceList{}, &apiextensionsv1.CustomResourceDefinitionList{},
	}
}

// orphaned returns a request for the CSV that the owner labels of an object name, if that CSV does not exist.
func (r *Reconciler) orphaned(ctx context.Context, obj client.Object) []reconcile.Request {
	labels := obj.GetLabels()
	namespace, owner := labels[names.LabelOwnerNamespace], labels[names.LabelOwner]
	if labels[names.LabelOwnerKind] != operatorsv1alpha1.ClusterServiceVersionKind || namespace == "" || owner == "" {
		return nil
	}
	if _, isCRD := obj.(*apiextensionsv1.CustomResourceDefinition); isCRD && obj.GetAnnotations()[names.AnnotationConversion] == "" {
		return nil
	}
	exists := func(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
		return ownerutil.LabelValue(csv.Name) == owner
	}
	if len(r.matching(ctx, exists, client.InNamespace(namespace))) > 0 {
		return nil
	}
	return request(namespace, owner)
}

// grouped returns requests for the CSVs in the namespace of an OperatorGroup, and for deleted CSVs of this namespace that
// left objects behind.
func (r *Reconciler) grouped(ctx context.Context, og client.Object) []reconcile.Request {
	out := r.inNamespace(ctx, og)
	for _, list := range calledLists() {
		if err := r.Client.List(ctx, list, client.MatchingLabels{names.LabelOwnerNamespace: og.GetNamespace()}, client.UnsafeDisableDeepCopy); err != nil {
			continue // the cache is not synced yet; its initial list enqueues the owners of all objects
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error { // the callback never returns an error
			if obj, ok := o.(client.Object); ok {
				out = append(out, r.orphaned(ctx, obj)...)
			}
			return nil
		})
	}
	return out
}

// removeOrphans removes, as the account of the namespace, objects of a CSV that no longer exists and that the API server still
// uses: webhook configurations, APIServices and the conversions of CustomResourceDefinitions. Usually, finalize has already
// removed them. key.Name is the CSV's name or, if that is too long for a label, the label's value.
func (r *Reconciler) removeOrphans(ctx context.Context, key client.ObjectKey) error {
	s := &scope{csv: &operatorsv1alpha1.ClusterServiceVersion{}, facts: Facts{Now: r.Clock.Now(), Obsolete: true}}
	s.csv.Namespace, s.csv.Name = key.Namespace, key.Name
	s.facts.CSV = s.csv
	found, err := r.orphans(ctx, s)
	if err != nil || len(found) == 0 {
		return err
	}
	account, err := r.cleaner(ctx, s)
	if scoped.ReasonOf(err) != "" {
		log.FromContext(ctx).Info("Leaving orphaned objects", "reason", err.Error(), "objects", len(found))
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, obj := range found {
		errs = append(errs, r.removeOrphan(ctx, s, account, obj))
	}
	return errors.Join(errs...)
}

// removeOrphan removes one object if that is permitted. A missing permission is not an error, because a grant causes another
// reconcile.
func (r *Reconciler) removeOrphan(ctx context.Context, s *scope, account client.Client, obj client.Object) error {
	if ok, err := r.isRemovable(ctx, s, obj); err != nil || !ok {
		return err
	}
	err := r.removeOrReset(ctx, s, account, obj)
	switch {
	case err == nil:
		log.FromContext(ctx).Info("Removed an orphaned object", "object", apply.Describe(obj), "account", s.account.Key().String())
	case isMissingPermissions(err):
		log.FromContext(ctx).Info("Waiting for permission to remove an orphaned object", "object", apply.Describe(obj), "reason", err.Error())
		return nil
	}
	return err
}

// orphans returns the objects whose labels name the CSV, unless that CSV or another CSV of the object's lineage exists according
// to the API server. isRemovable decides which of them are removed.
func (r *Reconciler) orphans(ctx context.Context, s *scope) ([]client.Object, error) {
	var found []client.Object
	label := ownerutil.LabelValue(s.csv.Name)
	for _, list := range calledLists() {
		err := r.Client.List(ctx, list, client.MatchingLabels{names.LabelOwner: label, names.LabelOwnerNamespace: s.csv.Namespace,
			names.LabelOwnerKind: operatorsv1alpha1.ClusterServiceVersionKind})
		if err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
		err = meta.EachListItem(list, func(o runtime.Object) error {
			if obj, ok := o.(client.Object); ok && obj.GetDeletionTimestamp() == nil && !isUnconverted(obj, s.csv.Namespace) {
				found = append(found, obj)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	err := scoped.EachVersion(ctx, r.Live, s.csv.Namespace, func(csv *metav1.PartialObjectMetadata) {
		found = slices.DeleteFunc(found, func(obj client.Object) bool {
			mark := obj.GetLabels()[names.LabelLineage]
			return ownerutil.LabelValue(csv.Name) == label || !isCopy(csv) && mark != "" && mayBe(csv, mark)
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// isUnconverted reports whether an object is a CustomResourceDefinition without a conversion that Remit configured.
func isUnconverted(obj client.Object, namespace string) bool {
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	return ok && !webhook.SetByRemit(crd, namespace)
}

// isRemovable reports whether an orphaned object may be removed. It must have a proof that Remit created it for the
// CSV's namespace. A conversion is only reset after the operator's Deployments were deleted. As OLM does, the default
// account also removes APIServices without a proof, but only if nothing serves them: their labels are not sufficient,
// because anyone who can write an APIService can set them.
func (r *Reconciler) isRemovable(ctx context.Context, s *scope, obj client.Object) (bool, error) {
	if err := r.Client.Get(ctx, client.ObjectKey{Name: s.csv.Namespace}, &s.namespace); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get Namespace %q: %w", s.csv.Namespace, err)
	}
	owner, proven := ownerutil.OwnerIn(obj, s.csv.Namespace, s.namespace.CreationTimestamp.Time, r.Proofs)
	api, isAPI := obj.(*apiregistrationv1.APIService)
	if _, isCRD := obj.(*apiextensionsv1.CustomResourceDefinition); isCRD && proven {
		return r.isStopped(ctx, owner)
	}
	if proven || !isAPI || !s.account.Default {
		return proven, nil
	}
	return r.isUnserved(ctx, s, api)
}

// isStopped reports whether no Deployment of a lineage exists.
func (r *Reconciler) isStopped(ctx context.Context, owner ownerutil.Owner) (bool, error) {
	list := &appsv1.DeploymentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(owner.Namespace), owner.Marked()); err != nil {
		return false, fmt.Errorf("list Deployments in namespace %q: %w", owner.Namespace, err)
	}
	return !slices.ContainsFunc(list.Items, func(d appsv1.Deployment) bool { return owner.Owns(&d) }), nil
}

// isUnserved reports whether nothing serves an APIService: its Service would be in the CSV's namespace but does not exist; or it
// has no Service, and neither the API server nor a CustomResourceDefinition serves its group.
func (r *Reconciler) isUnserved(ctx context.Context, s *scope, api *apiregistrationv1.APIService) (bool, error) {
	if api.Labels[labelAutomanaged] != "" || apigroup.Protected(api.Spec.Group) {
		return false, nil
	}
	if ref := api.Spec.Service; ref != nil {
		if ref.Namespace != s.csv.Namespace {
			return false, nil
		}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &corev1.Service{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	return !slices.ContainsFunc(list.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return apigroup.Same(crd.Spec.Group, api.Spec.Group)
	}), nil
}
