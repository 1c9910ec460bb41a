package serving_test

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/test/env/cputime"
)

// Webhooks with different ports are compared by port, not in pairs.
func TestManyPortsTakeLinearTime(t *testing.T) {
	require.NoError(t, cputime.CheckLinear(2_000, func(n int) func() {
		c := newCSV()
		c.Spec.WebhookDefinitions = make([]operatorsv1alpha1.WebhookDescription, n)
		for i := range c.Spec.WebhookDefinitions {
			c.Spec.WebhookDefinitions[i] = operatorsv1alpha1.WebhookDescription{DeploymentName: "hooks", ContainerPort: int32(i + 1)}
		}
		return func() {
			for _, d := range serving.Served(c) {
				require.True(t, d.Name != "hooks" || len(d.Ports) == n)
			}
		}
	}))
}
