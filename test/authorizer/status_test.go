package authorizer

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/test/env"
)

// conditionOf asserts the status of an InstallPlan's condition, and returns its message.
func conditionOf(c *assert.CollectT, tn *env.Tenant, condition string, status corev1.ConditionStatus, reason string) string {
	got := tn.Plan(c).Status.GetCondition(operatorsv1alpha1.InstallPlanConditionType(condition))
	assert.Equal(c, status, got.Status)
	assert.Equal(c, reason, string(got.Reason))
	return got.Message
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), into))
}
