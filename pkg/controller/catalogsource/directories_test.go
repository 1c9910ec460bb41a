package catalogsource

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
)

// withManifest is a catalog with one bundle, which contains a manifest.
func withManifest(manifest string) string {
	return goodCatalog + fmt.Sprintf(`---
schema: olm.package
name: inline
defaultChannel: stable
---
schema: olm.channel
name: stable
package: inline
entries: [{name: inline.v1}]
---
schema: olm.bundle
name: inline.v1
package: inline
properties:
- {type: olm.package, value: {packageName: inline, version: 1.0.0}}
- {type: olm.bundle.object, value: {data: %s}}
`, base64.StdEncoding.EncodeToString([]byte(manifest)))
}

func TestTheManifestsOfADirectoryAreOnDiskOnly(t *testing.T) {
	path, store := t.TempDir(), t.TempDir()
	opened, err := disk.Open(store, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	d := newDirectories(map[string]string{"img": path}, opened).byImage["img"]
	read := func(snap *catalog.Snapshot) string {
		content, err := snap.Reader.Content(t.Context(), "inline", "stable", "inline.v1")
		require.NoError(t, err)
		require.Len(t, content.Manifests, 1)
		return string(content.Manifests[0])
	}
	load := func(manifest string) *catalog.Snapshot {
		write(t, filepath.Join(path, "catalog.yaml"), withManifest(manifest))
		d.version.Add(1)
		got, _ := d.load(t.Context(), key("cat"), "")
		require.NoError(t, got.err)
		require.IsType(t, &disk.Contents{}, got.good.Reader)
		return got.good
	}

	first := load(`{"kind":"A"}`)
	require.JSONEq(t, `{"kind":"A"}`, read(first))
	second := load(`{"kind":"B"}`)
	require.JSONEq(t, `{"kind":"B"}`, read(second))
	require.JSONEq(t, `{"kind":"A"}`, read(first), "users of the previous content can still read it")
	require.NotEqual(t, first.Digest, second.Digest)

	left, err := filepath.Glob(filepath.Join(store, "*", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "no file remains on disk")
}

// A failed write because of a full disk is retried even if the files of the catalog do not change.
func TestADirectoryIsReadAgainWhenTheDiskHasSpace(t *testing.T) {
	d, store := oneDirectory(t)
	work, away := filepath.Join(store, "work"), filepath.Join(store, "away")
	require.NoError(t, os.Rename(work, away))

	got, again := d.load(t.Context(), key("cat"), "")
	require.ErrorIs(t, got.err, disk.ErrWrite)
	require.Equal(t, lastReload, again)
	require.NoError(t, os.Rename(away, work))
	got, again = d.load(t.Context(), key("other"), "")
	require.ErrorIs(t, got.err, disk.ErrWrite, "CatalogSources cannot make the program read the files more often")
	require.Positive(t, again)

	d.readAt = time.Now()
	got, again = d.load(t.Context(), key("cat"), "")
	require.NoError(t, got.err)
	require.NotNil(t, got.good)
	require.Zero(t, again)
}

func TestAFailedReadKeepsNoFileOpen(t *testing.T) {
	d, store := oneDirectory(t)
	_, err := d.read(canceled(t))
	require.Error(t, err)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc")
	}
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())) // fails for the descriptor of the directory itself
		require.False(t, strings.HasPrefix(target, filepath.Join(store, "work")), target)
	}
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// oneDirectory returns a catalog directory with one bundle, and the directory on disk in which its manifests are stored.
func oneDirectory(t *testing.T) (d *directory, store string) {
	t.Helper()
	path, store := t.TempDir(), t.TempDir()
	opened, err := disk.Open(store, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	write(t, filepath.Join(path, "catalog.yaml"), withManifest(`{"kind":"A"}`))
	return newDirectories(map[string]string{"img": path}, opened).byImage["img"], store
}
