package kit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStatusesAreDelayedLongerWhileManyOperatorsAreInstalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSettling()
		for range 1000 {
			require.Equal(t, SettleTime, s.Time("noisy"), "a namespace counts once")
		}
		var last time.Duration
		for i := range 60 {
			last = s.Time(fmt.Sprint(i))
		}
		require.Equal(t, SettleTime+51*perInstall, last)
		for i := range 1000 {
			last = s.Time(fmt.Sprint(i))
		}
		require.Equal(t, maxSettleTime, last)
		time.Sleep(maxSettleTime)
		require.Equal(t, SettleTime, s.Time("later"))
	})
}
