package requirement

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
)

func TestRequirementOfAVersion(t *testing.T) {
	status, message := compareVersions("1.20.0", "v1.36.3")
	require.Equal(t, Present, status)
	require.Equal(t, "CSV minKubeVersion (1.20.0) less than server version (v1.36.3)", message)
	status, message = compareVersions("9.0.0", "v1.36.3")
	require.Equal(t, NotPresent, status)
	require.Equal(t, "CSV version requirement not met: minKubeVersion (9.0.0) > server version (v1.36.3)", message)
	status, _ = compareVersions("latest", "v1.36.3")
	require.Equal(t, NotPresent, status)
}

func TestRequirementsAreMetWhereAllArePresent(t *testing.T) {
	of := func(all ...operatorsv1alpha1.StatusReason) []operatorsv1alpha1.RequirementStatus {
		var out []operatorsv1alpha1.RequirementStatus
		for _, s := range all {
			out = append(out, operatorsv1alpha1.RequirementStatus{Status: s})
		}
		return out
	}
	require.True(t, Met(nil))
	require.True(t, Met(of(Present, Present)))
	for _, s := range []operatorsv1alpha1.StatusReason{NotPresent, NotSatisfied, NotAvailable, ""} {
		require.False(t, Met(of(Present, s)), s)
	}
}
