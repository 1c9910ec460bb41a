package extension

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestsNameTheProgramAndItsVersion(t *testing.T) {
	t.Parallel()
	sent, err := cluster.UnnamedRequests(t.Context())
	require.NoError(t, err)
	require.Empty(t, sent)
}
