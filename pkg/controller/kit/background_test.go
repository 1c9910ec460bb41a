package kit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackgroundRunsFromStartUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	b := &Background{}
	began, ended := make(chan string, 4), make(chan string, 4)
	run := func(name string) func(context.Context) {
		return func(ctx context.Context) {
			began <- name
			<-ctx.Done()
			ended <- name
		}
	}
	b.Launch(run("before"))
	b.Launch(run("ended before"))()
	require.Empty(t, began, "nothing runs before Start")
	require.False(t, b.IsOver())
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() { returned <- b.Start(ctx) }()
	require.Equal(t, "before", <-began)

	end := b.Launch(run("after"))
	require.Equal(t, "after", <-began)
	end()
	require.Equal(t, "after", <-ended)
	end() // a second call does nothing

	require.Empty(t, returned)
	cancel()
	require.NoError(t, <-returned)
	require.Equal(t, "before", <-ended, "Start waits for the goroutines that it started")
	require.True(t, b.IsOver())
	b.Launch(run("too late"))()
	require.Empty(t, began)
}

func TestSlotsLimitEachNamespace(t *testing.T) {
	t.Parallel()
	s := &Slots{Max: 1}
	free, err := s.Take(t.Context(), "a")
	require.NoError(t, err)
	other, err := s.Take(t.Context(), "b")
	require.NoError(t, err, "another namespace has its own slots")
	other()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = s.Take(ctx, "a")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	free()
	free, err = s.Take(t.Context(), "a")
	require.NoError(t, err)
	free()
	require.Empty(t, s.used, "nothing is kept")
}
