package copiedcsv

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
)

// Users of one target can read the copy there, but may know nothing about other targets or the source's namespace.
func TestCopiesShowNothingAboutOtherTargets(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.Namespace = "source"
	csv.Status.Phase = operatorsv1alpha1.CSVPhaseSucceeded
	csv.Status.Conditions = []operatorsv1alpha1.ClusterServiceVersionCondition{
		{Phase: operatorsv1alpha1.CSVPhasePending, Reason: operatorsv1alpha1.CSVReasonRequirementsNotMet, Message: "no permissions in namespace other"}}
	csv.Status.RequirementStatus = []operatorsv1alpha1.RequirementStatus{{Kind: "ServiceAccount", Name: "operator"}}
	got, err := contentOf(csv, "group")
	require.NoError(t, err)
	require.Equal(t, operatorsv1alpha1.CSVPhaseSucceeded, got.status.Phase)
	require.Equal(t, []operatorsv1alpha1.ClusterServiceVersionCondition{
		{Phase: operatorsv1alpha1.CSVPhasePending, Reason: operatorsv1alpha1.CSVReasonRequirementsNotMet}}, got.status.Conditions)
	require.Empty(t, got.status.RequirementStatus)
	require.NotEmpty(t, csv.Status.Conditions[0].Message, "the source is unchanged")
}
