package installplan

import (
	"errors"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// Reasons of bundle lookups (contract 1.4).
const (
	reasonNotUnpacked = "BundleNotUnpacked"
	reasonLookupFails = "JobFailed"
)

// lookups shows the bundle that the plan waits for; nothing once its content is available.
func (s *run) lookups(err error) {
	waiting, ok := errors.AsType[*catalog.NotUnpacked](err)
	if !ok {
		s.plan.Status.BundleLookups = nil
		return
	}
	condition := operatorsv1alpha1.BundleLookupCondition{
		Type: operatorsv1alpha1.BundleLookupPending, Status: corev1.ConditionTrue, Reason: reasonNotUnpacked, Message: status.Text(waiting.Error()),
	}
	if waiting.Failure != nil {
		condition.Type, condition.Reason = operatorsv1alpha1.BundleLookupFailed, reasonLookupFails
	}
	now := metav1.NewTime(s.reconciler.Clock.Now())
	condition.LastTransitionTime, condition.LastUpdateTime = &now, &now
	if old := s.plan.Status.BundleLookups; len(old) == 1 && old[0].Path == waiting.Image && len(old[0].Conditions) == 1 {
		was := old[0].Conditions[0]
		if was.Type == condition.Type && was.Message == condition.Message {
			return
		}
	}
	s.plan.Status.BundleLookups = []operatorsv1alpha1.BundleLookup{{
		Path: waiting.Image, Identifier: waiting.Bundle,
		CatalogSourceRef: &corev1.ObjectReference{Namespace: waiting.Catalog.Namespace, Name: waiting.Catalog.Name},
		Conditions:       []operatorsv1alpha1.BundleLookupCondition{condition},
	}}
}
