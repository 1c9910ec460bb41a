package packages

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Administrators find out from the audit log which program, and which version of it, sends a request. The requests before the
// program is ready count as well.
func TestRequestsNameTheProgramAndItsVersion(t *testing.T) {
	t.Parallel()
	sent, err := cluster.UnnamedRequests(t.Context())
	require.NoError(t, err)
	require.Empty(t, sent)
}
