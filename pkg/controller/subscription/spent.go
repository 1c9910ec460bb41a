package subscription

import (
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
)

// A plan that is complete or superseded is spent: if a later resolution has the same content, the plan does not install
// it. Such a resolution occurs if the plan's objects were deleted, or if the Subscription was changed back. In this
// case, a new plan is created whose pins name the spent plan. The same applies if the plan that a Subscription's status
// refers to was deleted, whether or not it had written anything. The name of the new plan therefore differs but still depends only on its content, and the new
// plan must be approved again if approval is required.

// isSpent reports whether an existing plan is spent, which means that a resolution with the same content needs a new plan. The
// cache may show that a plan is complete before it shows the plan's ClusterServiceVersions. It may also show that a
// ClusterServiceVersion was deleted before it shows that its Subscription was deleted, even if the Subscription was deleted
// first. Therefore, isSpent reads the ClusterServiceVersion and the Subscription live, unless the cache contains the
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
		// If the ClusterServiceVersion was deleted, the pending event triggers another reconcile. If it is unfinished, a later plan wrote it.
		return w.finishes(plan), nil
	}
	for _, pin := range plan.Pins {
		exists, err := r.exists(ctx, w, pin)
		if err != nil || exists {
			return false, err // the ClusterServiceVersion's creation event is pending
		}
		subscribed, err := r.hasSubscription(ctx, w, pin)
		if err != nil || !subscribed {
			return false, err // the Subscription's deletion event is pending
		}
	}
	return true, nil
}

// isCached reports whether the cache contains a pin's ClusterServiceVersion and that ClusterServiceVersion belongs to
// the lineage. A ClusterServiceVersion that the tenant has labeled as a copy is not treated as installed, but counts
// here because it exists.
func (w *world) isCached(pin resolver.Pin) bool {
	return slices.ContainsFunc(w.csvs, func(csv operatorsv1alpha1.ClusterServiceVersion) bool {
		return csv.Name == pin.Bundle && w.owner(pin.Package).Owns(&csv)
	})
}

// hasSubscription reports whether a pin's Subscription still exists in the API server and is not being deleted.
func (r *Reconciler) hasSubscription(ctx context.Context, w *world, pin resolver.Pin) (bool, error) {
	live := metadata(operatorsv1alpha1.SubscriptionKind)
	found, err := apply.Read(ctx, r.Live, types.NamespacedName{Namespace: w.namespace, Name: pin.Subscription}, live)
	return found && live.UID == pin.SubscriptionUID && live.DeletionTimestamp == nil, err
}

// exists reports whether a pin's ClusterServiceVersion exists in the API server and belongs to the lineage. If it
// belongs to another owner, the plan reports a collision.
func (r *Reconciler) exists(ctx context.Context, w *world, pin resolver.Pin) (bool, error) {
	live := metadata(operatorsv1alpha1.ClusterServiceVersionKind)
	found, err := apply.Read(ctx, r.Live, types.NamespacedName{Namespace: w.namespace, Name: pin.Bundle}, live)
	return found && w.owner(pin.Package).Owns(live), err
}

// metadata returns an empty object for reading or watching only the metadata of a kind.
func metadata(kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: kind}}
}

func (w *world) owner(pkg string) ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: w.namespace}, Proofs: w.proofs}
}

// deletionPending returns a message about a ClusterServiceVersion of the plan that is still being deleted, or "". The
// deletion event triggers another reconcile.
func (w *world) deletionPending(plan resolver.Plan) string {
	for _, pin := range plan.Pins {
		for i := range w.csvs {
			if csv := &w.csvs[i]; csv.Name == pin.Bundle && csv.DeletionTimestamp != nil {
				return fmt.Sprintf("ClusterServiceVersion %s is being deleted (finalizers: %v); Remit will reinstall it when the deletion completes, "+
					"because Subscription %s requests it", csv.Name, csv.Finalizers, pin.Subscription)
			}
		}
	}
	return ""
}
