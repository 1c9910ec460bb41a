package operatorgroup

import (
	"context"
	"fmt"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/provided"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// installed returns the APIs that a package of the namespace is proven to have installed. The ClusterRoles of the group
// aggregate only the roles of these: the roles of an API that a ClusterServiceVersion merely lists belong to another operator,
// and the users of the group's ClusterRoles would receive permissions for it.
func (r *Reconciler) installed(ctx context.Context, apis []provided.API, namespace *corev1.Namespace) ([]provided.API, error) {
	subs := &operatorsv1alpha1.SubscriptionList{}
	if err := r.Client.List(ctx, subs, client.InNamespace(namespace.Name), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Subscriptions in namespace %q: %w", namespace.Name, err)
	}
	packages := map[string]ownerutil.Lineage{} // by mark, because there can be as many Subscriptions as APIs
	for i := range subs.Items {
		if spec := subs.Items[i].Spec; spec != nil {
			lineage := ownerutil.Lineage{Package: spec.Package, Namespace: namespace.Name}
			packages[lineage.ShortMark()] = lineage
		}
	}
	var out []provided.API
	for _, api := range apis {
		ok, err := provided.Installed(ctx, r.Client, api, func(obj client.Object) bool { return r.ownedIn(namespace, packages, obj) })
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, api)
		}
	}
	return out, nil
}

// ownedIn reports whether Remit created an object for a package of the namespace. The object's labels and the Subscriptions, which
// are needed for names that are too long for the label, only suggest the package; the proof decides.
func (r *Reconciler) ownedIn(namespace *corev1.Namespace, packages map[string]ownerutil.Lineage, obj client.Object) bool {
	since := namespace.CreationTimestamp.Time
	if _, ok := ownerutil.OwnerIn(obj, namespace.Name, since, r.Proofs); ok {
		return true
	}
	lineage, ok := packages[names.ShortMark(obj.GetLabels()[names.LabelLineage])]
	return ok && ownerutil.Owner{Lineage: lineage, Since: since, Proofs: r.Proofs}.Owns(obj)
}

// ownerChanged returns a predicate that accepts events after which another package, or none, owns a definition.
func ownerChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return before.GetUID() != after.GetUID() ||
			before.GetLabels()[names.LabelLineage] != after.GetLabels()[names.LabelLineage] ||
			before.GetLabels()[names.LabelOwnerNamespace] != after.GetLabels()[names.LabelOwnerNamespace] ||
			before.GetAnnotations()[names.AnnotationProof] != after.GetAnnotations()[names.AnnotationProof]
	}}
}

// defining returns requests for the OperatorGroups in the namespace that the labels of a definition name.
func (r *Reconciler) defining(ctx context.Context, obj client.Object) []reconcile.Request {
	namespace := obj.GetLabels()[names.LabelOwnerNamespace]
	if namespace == "" {
		return nil
	}
	return kit.Matching(ctx, r.Client, &operatorsv1.OperatorGroupList{}, kit.Any[*operatorsv1.OperatorGroup], client.InNamespace(namespace))
}
