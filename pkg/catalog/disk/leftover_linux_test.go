package disk

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Removing a directory takes a file descriptor for each level.
func TestOpensBesideFilesThatCannotBeRemoved(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, dirWork, strings.Repeat("a/", 300))
	require.NoError(t, os.MkdirAll(deep, mode))
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) })
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 200, Max: before.Max}))
	s := open(t, dir, 0)
	require.DirExists(t, filepath.Join(dir, dirWork, "a"), "it cannot be removed here")
	_, remove, err := s.Work()
	require.NoError(t, err)
	remove()
}
