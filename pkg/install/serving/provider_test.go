package serving

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProvidersSelectTools(t *testing.T) {
	var unset Provider
	require.Equal(t, "remit", unset.String())
	for p, want := range map[Provider]*Tool{"": nil, ProviderRemit: nil, ProviderCertManager: CertManager("ops"), ProviderServiceCA: ServiceCA()} {
		require.Equal(t, want, p.Tool("ops"), p)
	}
	require.Empty(t, ProviderServiceCA.Kinds(), "the service-ca operator has no API that installs use")
}
