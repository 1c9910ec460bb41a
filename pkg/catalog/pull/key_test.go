package pull

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Files that exceed a limit are omitted, so what a tenant has read must not be served to those with larger limits.
func TestCatalogsThatWereReadWithOtherLimitsAreNotShared(t *testing.T) {
	at := Location{Repository: "r", Named: "sha256:1"}
	global := Options{}.key(at)
	require.Equal(t, global, Options{}.key(at))
	for _, tenant := range []Options{{MaxFiles: 1}, {MaxContents: 1}, {MaxUnpacked: 1}, {MaxNames: 1}} {
		require.NotEqual(t, global, tenant.key(at))
	}
	require.NotEqual(t, Options{MaxFiles: 1}.key(at), Options{MaxContents: 1}.key(at))
}
