package deployment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/test/env/cputime"
)

// The lists of the ClusterServiceVersion and of the Subscription are compared by key, not in pairs.
func TestLongListsTakeLinearTime(t *testing.T) {
	require.NoError(t, cputime.CheckLinear(250, func(n int) func() {
		in := sized(1, 1, entries(n, "env", "envFrom", "volumes", "volumeMounts", "tolerations"))
		pod := &in.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec
		own := entries(10*n, "env", "tolerations")
		pod.Tolerations, pod.Containers[0].Env = own.Tolerations, own.Env
		return func() {
			all, err := deployment.Desired(in)
			require.NoError(t, err)
			got := all[0].Spec.Template.Spec
			require.Len(t, got.Tolerations, 10*n)
			require.Len(t, got.Containers[0].Env, 10*n+1, "with OPERATOR_CONDITION_NAME")
			require.Len(t, got.Containers[0].EnvFrom, n)
			require.Len(t, got.Volumes, n)
		}
	}))
}
