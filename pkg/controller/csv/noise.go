package csv

import (
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// groupChanged returns a predicate that drops the updates of an OperatorGroup in which nothing changed that this controller reads: each
// update is compared with all ClusterServiceVersions of its namespace.
func groupChanged() predicate.Predicate {
	read := []string{names.AnnotationManagedBy, names.AnnotationKeepExcess, names.AnnotationTooLarge, names.AnnotationUndecodable}
	return predicate.Or(kit.SpecChanged(), predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
		differs := func(key string) bool { return before[key] != after[key] }
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() || slices.ContainsFunc(read, differs) ||
			isStatic(e.ObjectNew) && differs(operatorsv1.OperatorGroupProvidedAPIsAnnotationKey)
	}})
}

// isStatic reports whether the annotation of an OperatorGroup limits the APIs of its operators.
func isStatic(obj client.Object) bool {
	og, ok := obj.(*operatorsv1.OperatorGroup)
	return ok && og.Spec.StaticProvidedAPIs
}

// deploymentChanged returns a predicate that accepts the events of the Deployments of ClusterServiceVersions. Of other Deployments it
// accepts the deletion, because only that can end a wait: each of their events is compared with all ClusterServiceVersions of the
// namespace.
func (r *Reconciler) deploymentChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.isOperand(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return r.isOperand(e.ObjectOld) || r.isOperand(e.ObjectNew) || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
		},
	}
}

// isOperand reports whether a Deployment has a ClusterServiceVersion as its owner, or Remit created it.
func (r *Reconciler) isOperand(obj client.Object) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.Kind == operatorsv1alpha1.ClusterServiceVersionKind
	}) || r.proven(obj)
}
