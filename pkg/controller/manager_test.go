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
