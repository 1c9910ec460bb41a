package e2e

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

func sample(t *testing.T) *env.Tenant {
	t.Helper()
	tn := cluster.Tenant(t)
	tn.Catalog("sample", sampleImage)
	return tn
}

func TestAnAccountWithJustEnoughInstalls(t *testing.T) {
	tn := sample(t)
	b, err := env.ReadBundle(bundle.FS())
	require.NoError(t, err)
	tn.GrantAll(tn.Needs(b, bundle.Package, tn.Namespace))
	tn.Group(env.AccountName, tn.Namespace)
	tn.Subscribe("sample", bundle.Package, bundle.Channel)

	tn.Eventually(func(c *assert.CollectT) {
		ip := tn.Plan(c)
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseComplete, ip.Status.Phase, ip.Status.Message)
	})
}
