package volume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPublishReplacesTheWholeContent(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, publish(dir, payload{"a": {data: []byte("1"), mode: 0o600}, "d/b": {data: []byte("2"), mode: 0o644}}))
	require.Equal(t, "1", read(t, dir, "a"))
	require.Equal(t, "2", read(t, dir, "d/b"))
	first, err := os.Readlink(filepath.Join(dir, dataLink))
	require.NoError(t, err)

	require.NoError(t, publish(dir, payload{"a": {data: []byte("1"), mode: 0o600}, "d/b": {data: []byte("2"), mode: 0o644}}))
	same, err := os.Readlink(filepath.Join(dir, dataLink))
	require.NoError(t, err)
	require.Equal(t, first, same, "nothing is written when nothing has changed")

	require.NoError(t, os.Mkdir(filepath.Join(dir, "nested"), 0o755))
	require.NoError(t, publish(dir, payload{"c": {data: []byte("3"), mode: 0o644}}))
	require.Equal(t, "3", read(t, dir, "c"))
	require.NoFileExists(t, filepath.Join(dir, "a"))
	require.NoDirExists(t, filepath.Join(dir, first))
	require.DirExists(t, filepath.Join(dir, "nested"), "a directory for a nested mount stays")
}

func TestPublishRejectsPathsOutsideTheVolume(t *testing.T) {
	require.Error(t, publish(t.TempDir(), payload{"../x": {data: []byte("1")}}))
}

func TestAnEmptySecretIsAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, publish(dir, payload{}))
	require.True(t, shows(dir, payload{}))
	require.False(t, shows(dir, payload{"a": {}}))
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(content)
}
