package assess_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
)

func TestRefusesAMissingProviderOnce(t *testing.T) {
	var steps []step.Step
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}, {Group: "cert-manager.io", Version: "v1", Kind: "Issuer"},
		{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"}, {Version: "v1", Kind: "Service"},
	} {
		steps = append(steps, step.Step{Object: apply.Reference(gvk, "ops", "op")})
	}
	served := func(gvk schema.GroupVersionKind) (bool, error) { return gvk.Group == "", nil }
	for provider, want := range map[serving.Provider][]string{
		serving.ProviderCertManager: {"certificates of webhooks and APIs", "ServiceMonitor ops/op"},
		serving.ProviderRemit:       {"Certificate ops/op", "Issuer ops/op", "ServiceMonitor ops/op"}, // the bundle contains them
	} {
		report := &preflight.Report{}
		require.NoError(t, assess.RefuseUnserved(report, steps, provider, served))
		var got []string
		for _, refused := range report.Refused {
			got = append(got, refused.Object)
			require.True(t, refused.Unserved)
		}
		require.Equal(t, want, got, provider)
		require.True(t, report.DeferUntilServed())
	}

	report := &preflight.Report{}
	require.NoError(t, assess.RefuseUnserved(report, steps[:2], serving.ProviderCertManager, func(schema.GroupVersionKind) (bool, error) { return true, nil }))
	require.Empty(t, report.Refused)
	failed := errors.New("no answer")
	require.ErrorIs(t, assess.RefuseUnserved(report, steps, serving.ProviderCertManager, func(schema.GroupVersionKind) (bool, error) { return false, failed }), failed)
}
