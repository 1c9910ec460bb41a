package controller

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestTheCacheContainsNoContentOfInstallPlans(t *testing.T) {
	plan := &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
		Annotations:   map[string]string{names.AnnotationPlan: "[]", names.AnnotationContent: "KLUv"},
	}}
	got, err := withoutContent(plan)
	require.NoError(t, err)
	require.Equal(t, &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationPlan: "[]"}}}, got)
	_, err = withoutContent(&operatorsv1alpha1.InstallPlan{})
	require.NoError(t, err)
	other, err := withoutContent("a tombstone")
	require.NoError(t, err)
	require.Equal(t, "a tombstone", other)
}

func TestTheCacheContainsNoManifestsOfCompleteInstallPlans(t *testing.T) {
	for phase, want := range map[operatorsv1alpha1.InstallPlanPhase]string{
		operatorsv1alpha1.InstallPlanPhaseComplete: "", operatorsv1alpha1.InstallPlanPhaseInstalling: "{}", operatorsv1alpha1.InstallPlanPhaseFailed: "{}",
	} {
		shown := &operatorsv1alpha1.Step{
			Resource: operatorsv1alpha1.StepResource{Kind: "Role", Name: "x", Manifest: "{}"}, Status: operatorsv1alpha1.StepStatusCreated,
		}
		plan := &operatorsv1alpha1.InstallPlan{Status: operatorsv1alpha1.InstallPlanStatus{Phase: phase, Plan: []*operatorsv1alpha1.Step{shown, nil}}}
		_, err := withoutContent(plan)
		require.NoError(t, err)
		require.Equal(t, &operatorsv1alpha1.Step{
			Resource: operatorsv1alpha1.StepResource{Kind: "Role", Name: "x", Manifest: want}, Status: operatorsv1alpha1.StepStatusCreated,
		}, plan.Status.Plan[0], phase)
	}
}

func TestRenewalKeepsTheRatiosOfTheDefaults(t *testing.T) {
	deadline, retry := renewal(DefaultLeaseDuration)
	require.Equal(t, []time.Duration{10 * time.Second, 2 * time.Second}, []time.Duration{deadline, retry})
	deadline, retry = renewal(3 * time.Second)
	require.Equal(t, []time.Duration{2 * time.Second, 400 * time.Millisecond}, []time.Duration{deadline, retry})
}
