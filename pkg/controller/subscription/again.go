package subscription

import (
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
)

// A plan that was carried out, or superseded, is no answer to a resolution that has the same content again: what it made was
// deleted, or the Subscription has changed back. Then a plan of that content is made anew, whose pins name the spent one.
// So its name differs, still follows from the content alone, and somebody approves again where somebody has to.

// isSpent says whether an existing plan does nothing any more for a resolution of the same content. A plan may be seen as
// complete before the ClusterServiceVersions that it has made, and a ClusterServiceVersion as deleted before its Subscription, which was
// deleted first: whether these exist is read live, unless the cache has the ClusterServiceVersion.
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
		return false, nil // the event of its deletion comes
	}
	for _, pin := range plan.Pins {
		exists, err := r.exists(ctx, w, pin)
		if err != nil || exists {
			return false, err // its event comes
		}
		stands, err := r.stands(ctx, w, pin)
		if err != nil || !stands {
			return false, err // its event comes
		}
	}
	return true, nil
}

// isCached reports whether the cache has a pin's ClusterServiceVersion, of its lineage. One that its tenant has labelled as a copy
// counts: it is not the installed one then, but it is there.
func (w *world) isCached(pin resolver.Pin) bool {
	return slices.ContainsFunc(w.csvs, func(csv operatorsv1alpha1.ClusterServiceVersion) bool {
		return csv.Name == pin.Bundle && w.owner(pin.Package).Owns(&csv)
	})
}

// stands reads, past the cache, whether a pin's Subscription is still there.
func (r *Reconciler) stands(ctx context.Context, w *world, pin resolver.Pin) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.SubscriptionKind))
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: w.namespace, Name: pin.Subscription}, live)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get Subscription %q: %w", pin.Subscription, err)
	}
	return err == nil && live.UID == pin.SubscriptionUID && live.DeletionTimestamp == nil, nil
}

// exists reads, past the cache, whether a pin's ClusterServiceVersion is there and of its lineage. One that is somebody else's is
// in the way, which a plan finds out.
func (r *Reconciler) exists(ctx context.Context, w *world, pin resolver.Pin) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: w.namespace, Name: pin.Bundle}, live)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get ClusterServiceVersion %q: %w", pin.Bundle, err)
	}
	return w.owner(pin.Package).Owns(live), nil
}

func (w *world) owner(pkg string) ownerutil.Owner {
	return ownerutil.Owner{Lineage: ownerutil.Lineage{Package: pkg, Namespace: w.namespace}, Proofs: w.proofs}
}

// again is the content of a plan that follows a spent one of the same content.
func again(plan resolver.Plan, spent client.Object) resolver.Plan {
	out := resolver.Plan{Namespace: plan.Namespace}
	for _, pin := range plan.Pins {
		pin.Again = spent.GetName()
		out.Pins = append(out.Pins, pin)
	}
	return out
}

// going returns what is said while a ClusterServiceVersion of the plan is still being deleted; "" if none is. Its last event
// brings the namespace back.
func (w *world) going(plan resolver.Plan) string {
	for _, pin := range plan.Pins {
		for i := range w.csvs {
			if csv := &w.csvs[i]; csv.Name == pin.Bundle && csv.DeletionTimestamp != nil {
				return fmt.Sprintf("ClusterServiceVersion %s is being deleted (finalizers: %v); it is installed again once it is gone, "+
					"as Subscription %s asks for it", csv.Name, csv.Finalizers, pin.Subscription)
			}
		}
	}
	return ""
}
