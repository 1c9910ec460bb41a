package subscription

import (
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
)

// A plan that is complete or superseded does not satisfy a later resolution with the same content: its objects were
// deleted, or the Subscription was changed back. A new plan is then created, whose pins name the spent one. Its name
// therefore differs, but still depends only on the content, and it must be approved again if approval is required.

// isSpent reports whether an existing plan has no further effect for a resolution with the same content. The cache may
// show a plan as complete before it shows its ClusterServiceVersions, and a deleted ClusterServiceVersion before its
// Subscription, which was deleted first. Therefore their existence is read live, unless the cache has the
// ClusterServiceVersion.
func (r *Reconciler) isSpent(ctx context.Context, w *world, ip *operatorsv1alpha1.InstallPlan, plan resolver.Plan) (bool, error) {
	if ip.DeletionTimestamp != nil {
		return false, nil
	}
	switch ip.Status.Phase {
	case operatorsv1alpha1.InstallPlanPhaseFailed:
		return ip.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Reason == names.ReasonSuperseded, nil
	case operatorsv1alpha1.InstallPlanPhaseComplete:
	default:
		return false, nil
	}
	if slices.ContainsFunc(plan.Pins, w.isCached) {
		return false, nil // the event of its deletion is pending
	}
	for _, pin := range plan.Pins {
		exists, err := r.exists(ctx, w, pin)
		if err != nil || exists {
			return false, err // its event is pending
		}
		subscribed, err := r.hasSubscription(ctx, w, pin)
		if err != nil || !subscribed {
			return false, err // its event is pending
		}
	}
	return true, nil
}

// isCached reports whether the cache has a pin's ClusterServiceVersion and it belongs to the lineage. One that the
// tenant has labeled as a copy counts: it exists, although it is not treated as installed.
func (w *world) isCached(pin resolver.Pin) bool {
	return slices.ContainsFunc(w.csvs, func(csv operatorsv1alpha1.ClusterServiceVersion) bool {
		return csv.Name == pin.Bundle && w.owner(pin.Package).Owns(&csv)
	})
}

// hasSubscription reads, bypassing the cache, whether a pin's Subscription still exists.
func (r *Reconciler) hasSubscription(ctx context.Context, w *world, pin resolver.Pin) (bool, error) {
	live := metadata(operatorsv1alpha1.SubscriptionKind)
	found, err := apply.Read(ctx, r.Live, types.NamespacedName{Namespace: w.namespace, Name: pin.Subscription}, live)
	return found && live.UID == pin.SubscriptionUID && live.DeletionTimestamp == nil, err
}

// exists reads, bypassing the cache, whether a pin's ClusterServiceVersion exists and belongs to the lineage. Other
// ones are collisions, which the plan reports.
func (r *Reconciler) exists(ctx context.Context, w *world, pin resolver.Pin) (bool, error) {
	live := metadata(operatorsv1alpha1.ClusterServiceVersionKind)
	found, err := apply.Read(ctx, r.Live, types.NamespacedName{Namespace: w.namespace, Name: pin.Bundle}, live)
	return found && w.owner(pin.Package).Owns(live), err
}

// metadata returns an empty object of a kind, to read only its metadata.
func metadata(kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: kind}}
}

func (w *world) owner(pkg string) ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: w.namespace}, Proofs: w.proofs}
}

// followUp returns the content of a plan that follows a spent one with the same content.
func followUp(plan resolver.Plan, spent client.Object) resolver.Plan {
	out := resolver.Plan{Namespace: plan.Namespace}
	for _, pin := range plan.Pins {
		pin.Again = spent.GetName()
		out.Pins = append(out.Pins, pin)
	}
	return out
}

// deletionPending describes a ClusterServiceVersion of the plan that is still being deleted, or returns "". The event
// of its removal triggers another reconcile.
func (w *world) deletionPending(plan resolver.Plan) string {
	for _, pin := range plan.Pins {
		for i := range w.csvs {
			if csv := &w.csvs[i]; csv.Name == pin.Bundle && csv.DeletionTimestamp != nil {
				return fmt.Sprintf("ClusterServiceVersion %s is being deleted (finalizers: %v); it is installed again after the deletion, "+
					"because Subscription %s requests it", csv.Name, csv.Finalizers, pin.Subscription)
			}
		}
	}
	return ""
}
