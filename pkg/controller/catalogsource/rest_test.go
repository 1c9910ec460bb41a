package catalogsource

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A registry can fail, close the connection and accept another one as often as it likes.
func TestAnotherConnectionDoesNotEndThePause(t *testing.T) {
	t.Parallel()
	e := &connection{}
	require.True(t, e.rest(t.Context()), "nothing has failed")
	for range 10 {
		before := time.Now()
		require.False(t, e.pauseAfter(errors.New("failed")))
		require.WithinRange(t, e.resume, before.Add(firstReload), time.Now().Add(longestRest))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, e.rest(ended), "the next load waits")
}
