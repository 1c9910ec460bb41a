package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/test/env/tmpfs"
)

// put stores a catalog under a key, as the catalogsource controller does.
func put(t *testing.T, s *Store, key, manifest string) error {
	t.Helper()
	contents, err := s.NewContents(0, nil)
	if err != nil {
		return err
	}
	snap, err := fbc.Loader{Contents: contents}.Load(t.Context(), files(manifest))
	if err == nil {
		err = s.PutSnapshot(key, snap, contents)
	}
	if err != nil {
		contents.Discard()
	}
	return err
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A catalog is stored completely or not at all, no matter how little space is left, and existing catalogs are kept.
func TestFullDisk(t *testing.T) {
	full := tmpfs.New(t, "1m")
	s := open(t, filepath.Join(full.Dir, "store"), 0)
	require.NoError(t, put(t, s, "old", "kind: X"))
	manifest, kept, refused := strings.Repeat("kind: Y ", 4<<10), 0, 0
	bundle := &catalog.Content{Manifests: [][]byte{[]byte(manifest)}}
	for left := int64(0); left <= 128<<10; left += 4 << 10 {
		full.Fill(t, left)
		for _, failed := range []error{put(t, s, "new", manifest), s.PutBundle("new", bundle)} {
			if failed == nil {
				kept++
				continue
			}
			refused++
			require.ErrorIs(t, failed, ErrWrite)
			require.ErrorIs(t, failed, syscall.ENOSPC)
			require.NotContains(t, failed.Error(), full.Dir)
		}
		require.Empty(t, names(t, filepath.Join(s.dir, dirWork)), "%d bytes were left", left)
		for _, key := range []string{"old", "new"} {
			snap, err := s.Snapshot(key, nil)
			if errors.Is(err, fs.ErrNotExist) && key == "new" {
				require.NotContains(t, names(t, filepath.Join(s.dir, dirCatalogs)), "new"+suffixContents)
				continue
			}
			require.NoError(t, err)
			_, err = snap.Reader.Content(t.Context(), "a", "stable", "a.v2")
			require.NoError(t, err)
			require.NoError(t, snap.Reader.(*Contents).Close())
		}
		for _, path := range []string{s.path(dirCatalogs, "new"+suffixIndex), s.path(dirCatalogs, "new"+suffixContents), s.path(dirBundles, "new")} {
			require.NoError(t, os.RemoveAll(path))
		}
	}
	require.Positive(t, kept)
	require.Positive(t, refused)
	full.Free(t)
	require.NoError(t, put(t, s, "new", manifest))
	require.NoError(t, s.PutBundle("new", bundle))
}
