package catalogsource

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackgroundRunsFromStartUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	b := &background{}
	began, ended := make(chan string, 4), make(chan string, 4)
	run := func(name string) func(context.Context) {
		return func(ctx context.Context) {
			began <- name
			<-ctx.Done()
			ended <- name
		}
	}
	b.launch(run("before"))
	b.launch(run("ended before"))()
	require.Empty(t, began, "nothing runs before Start")
	require.False(t, b.isOver())
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() { returned <- b.Start(ctx) }()
	require.Equal(t, "before", <-began)

	end := b.launch(run("after"))
	require.Equal(t, "after", <-began)
	end()
	require.Equal(t, "after", <-ended)
	end() // a second time does nothing

	require.Empty(t, returned)
	cancel()
	require.NoError(t, <-returned)
	require.Equal(t, "before", <-ended, "Start waits for what it started")
	require.True(t, b.isOver())
	b.launch(run("too late"))()
	require.Empty(t, began)
}

func TestSlotsLimitEachNamespace(t *testing.T) {
	t.Parallel()
	s := &slots{max: 1}
	free, err := s.take(t.Context(), "a")
	require.NoError(t, err)
	other, err := s.take(t.Context(), "b")
	require.NoError(t, err, "of another namespace")
	other()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = s.take(ctx, "a")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	free()
	free, err = s.take(t.Context(), "a")
	require.NoError(t, err)
	free()
}
