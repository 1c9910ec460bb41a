package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRenewalKeepsTheRatiosOfTheDefaults(t *testing.T) {
	deadline, retry := renewal(DefaultLeaseDuration)
	require.Equal(t, []time.Duration{10 * time.Second, 2 * time.Second}, []time.Duration{deadline, retry})
	deadline, retry = renewal(3 * time.Second)
	require.Equal(t, []time.Duration{2 * time.Second, 400 * time.Millisecond}, []time.Duration{deadline, retry})
}

// A program that ends because its caches are not read in two minutes, which is the default, never starts as long as the objects are stored.
func TestProgramsWaitForTheirCaches(t *testing.T) {
	mgr, err := NewManager(apiServer(t, nil), ManagerOptions{UserAgent: "test", Namespace: "remit"})
	require.NoError(t, err)
	require.Equal(t, cacheSyncTimeout, mgr.GetControllerOptions().CacheSyncTimeout)
	require.Greater(t, cacheSyncTimeout, 5*time.Minute)
}
