package lifetime

import (
	"io"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUnusedWaitsForTheLastUserAndKeepsTheLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	user, err := open(file)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(user, syscall.LOCK_SH))
	unused, err := Unused(t.Context(), file, time.Millisecond)
	require.NoError(t, err)
	select {
	case <-unused:
		require.Fail(t, "the file still has a user")
	case <-time.After(3 * pollInterval):
	}
	require.NoError(t, syscall.Close(user))
	<-unused
	late, err := open(file)
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Flock(late, syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
	require.NoError(t, syscall.Close(late))
}

func TestExclusiveFailsIfTheFileIsLocked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	require.NoError(t, Exclusive(file))
	require.Error(t, Exclusive(file))
}

func TestClosedFollowsItsReader(t *testing.T) {
	r, w := io.Pipe()
	closed := Closed(r)
	require.NoError(t, w.Close())
	<-closed
}
