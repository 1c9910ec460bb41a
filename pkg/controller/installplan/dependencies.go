package installplan

import (
	"context"
	"encoding/json"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
)

// showDependencies adds the Subscriptions that were created for dependencies to the steps in the status, as OLM does. They are
// only shown: remit-catalog creates them before it creates the plan. They come last, because the other steps are
// identified by their position.
func (s *run) showDependencies(ctx context.Context) error {
	for _, pin := range s.content.Pins {
		sub := &operatorsv1alpha1.Subscription{}
		exists, err := apply.Read(ctx, s.reconciler.Client, client.ObjectKey{Namespace: s.plan.Namespace, Name: pin.Subscription}, sub)
		if err != nil {
			return err
		}
		if !exists || sub.UID != pin.SubscriptionUID || !isDependency(sub, pin) {
			continue
		}
		shown, err := dependency(sub, pin)
		if err != nil {
			return err
		}
		s.plan.Status.Plan = append(s.plan.Status.Plan, shown)
	}
	return nil
}

// isDependency reports whether a Subscription was created for the bundle of a pin, and not for an earlier version.
func isDependency(sub *operatorsv1alpha1.Subscription, pin resolver.Pin) bool {
	return sub.Annotations[names.AnnotationGeneratedBy] != "" && sub.Spec != nil && sub.Spec.StartingCSV == pin.Bundle
}

// dependency returns the step of a Subscription. Its manifest contains only what the pin determines.
func dependency(sub *operatorsv1alpha1.Subscription, pin resolver.Pin) (*operatorsv1alpha1.Step, error) {
	manifest, err := json.Marshal(&operatorsv1alpha1.Subscription{
		TypeMeta:   metav1.TypeMeta{APIVersion: operatorsv1alpha1.SubscriptionCRDAPIVersion, Kind: operatorsv1alpha1.SubscriptionKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: sub.Namespace, Name: sub.Name},
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: pin.Catalog, CatalogSourceNamespace: pin.CatalogNamespace, Package: pin.Package, Channel: pin.Channel,
			StartingCSV: pin.Bundle, InstallPlanApproval: sub.Spec.InstallPlanApproval,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode Subscription %s: %w", sub.Name, err)
	}
	return &operatorsv1alpha1.Step{
		Resolving: pin.Bundle,
		Status:    operatorsv1alpha1.StepStatusPresent,
		Resource: operatorsv1alpha1.StepResource{
			CatalogSource: pin.Catalog, CatalogSourceNamespace: pin.CatalogNamespace,
			Group: operatorsv1alpha1.GroupName, Version: operatorsv1alpha1.GroupVersion, Kind: operatorsv1alpha1.SubscriptionKind,
			Name: sub.Name, Manifest: string(manifest),
		},
	}, nil
}
