package kit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestARequestShortensThePauseToTheMinimum(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	r := NewRetry()
	type end struct{ asked, ok bool }
	ended := make(chan end, 1)
	sleep := func(ctx context.Context) {
		go func() {
			asked, ok := r.Sleep(ctx, clock, time.Minute)
			ended <- end{asked, ok}
		}()
		require.Eventually(t, clock.HasWaiters, time.Minute, time.Millisecond)
	}
	sleep(t.Context())
	clock.Step(time.Minute)
	require.Equal(t, end{false, true}, <-ended)

	sleep(t.Context())
	clock.Step(ShortestRetry)
	r.Ask()
	r.Ask()
	require.Equal(t, end{true, true}, <-ended)

	r.Ask()
	r.Begin()
	sleep(t.Context())
	require.Empty(t, ended, "earlier requests are discarded")
	clock.Step(ShortestRetry / 2)
	r.Ask()
	require.Eventually(t, func() bool { return len(r) == 0 }, time.Minute, time.Millisecond)
	require.Empty(t, ended)
	require.Eventually(t, func() bool {
		clock.Step(ShortestRetry / 10)
		return len(ended) > 0
	}, time.Minute, time.Millisecond)
	require.Equal(t, end{true, true}, <-ended)

	ctx, cancel := context.WithCancel(t.Context())
	sleep(ctx)
	cancel()
	require.Equal(t, end{false, false}, <-ended)

	require.Equal(t, 2*time.Minute, NextPause(time.Minute, false))
	require.Equal(t, LastPause, NextPause(LastPause, false))
	require.Equal(t, ShortestRetry, NextPause(time.Minute, true))
}
