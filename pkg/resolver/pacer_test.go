package resolver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestPausesInProportionToItsWork(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	p := newPacer(fake, 0.75)
	p.pause(t.Context()) // no work has been done yet
	fake.Step(20 * time.Millisecond)
	ended := make(chan struct{})
	go func() {
		p.pause(t.Context())
		close(ended)
	}()
	require.Eventually(t, fake.HasWaiters, time.Minute, time.Millisecond)
	fake.Step(59 * time.Millisecond)
	require.True(t, fake.HasWaiters())
	fake.Step(time.Millisecond)
	<-ended

	fake.Step(time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.pause(ctx)
}

func TestAResolutionPauses(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	ctx, cancel := context.WithCancel(t.Context())
	m := newMeter(ctx, Input{Indexes: &Indexes{}}, Limits{Cost: 1 << 60, Idle: 0.5})
	m.pacer = newPacer(fake, m.limits.Idle)
	fake.Step(time.Second)
	result := make(chan error, 1)
	go func() { result <- m.Spend(checkEvery) }()
	require.Eventually(t, fake.HasWaiters, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
}
