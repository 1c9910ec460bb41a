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

func TestRenewalKeepsTheRatiosOfTheDefaults(t *testing.T) {
	deadline, retry := renewal(DefaultLeaseDuration)
	require.Equal(t, []time.Duration{10 * time.Second, 2 * time.Second}, []time.Duration{deadline, retry})
	deadline, retry = renewal(3 * time.Second)
	require.Equal(t, []time.Duration{2 * time.Second, 400 * time.Millisecond}, []time.Duration{deadline, retry})
}
