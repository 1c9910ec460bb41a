package disk

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
)

func open(t *testing.T, dir string, limit int64) *Store {
	t.Helper()
	s, err := Open(dir, limit)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// files returns a catalog with inline manifests.
func files(manifest string) fstest.MapFS {
	return fstest.MapFS{"a.yaml": {Data: fmt.Appendf(nil, `
schema: olm.package
name: a
defaultChannel: stable
---
schema: olm.channel
package: a
name: stable
entries: [{name: a.v1}, {name: a.v2, replaces: a.v1, skips: [a.v0], skipRange: "<2.0.0"}]
---
schema: olm.bundle
package: a
name: a.v1
image: example.com/a:v1
properties: [{type: olm.package, value: {packageName: a, version: 1.0.0}}, {type: olm.gvk, value: {group: g,   kind: K, version: v1}}, {type: olm.csv.metadata, value: {description: long}}]
---
schema: olm.bundle
package: a
name: a.v2
properties: [{type: olm.bundle.object, value: {data: %s}}]
---
schema: olm.deprecations
package: a
entries: [{reference: {schema: olm.bundle, name: a.v1}, message: old}]
`, base64.StdEncoding.EncodeToString([]byte(manifest)))}}
}

func load(t *testing.T, s *Store, manifest string) (*catalog.Snapshot, *Contents) {
	t.Helper()
	contents, err := s.NewContents(0, nil)
	require.NoError(t, err)
	snap, err := fbc.Loader{Contents: contents}.Load(t.Context(), files(manifest))
	require.NoError(t, err)
	return snap, contents
}

func TestRestoresACatalogAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 0)
	snap, contents := load(t, s, "kind: X")
	snap.Warnings = []string{`file "x": broken`}
	require.NoError(t, s.PutSnapshot("key", snap, contents))
	direct, err := fbc.Load(t.Context(), files("kind: X"))
	require.NoError(t, err)
	require.Equal(t, direct.Digest, snap.Digest, "the digest does not depend on where manifests are stored")
	require.Equal(t, direct.Packages, snap.Packages)
	require.NoError(t, s.Close())

	again, err := open(t, dir, 0).Snapshot("key", nil)
	require.NoError(t, err)
	require.Equal(t, snap.Digest, again.Digest)
	require.Equal(t, snap.Warnings, again.Warnings)
	require.Equal(t, snap.Packages, again.Packages)
	require.Len(t, again.Packages["a"].Bundles["a.v1"].Properties, 2, "informational properties are not kept in memory")
	for _, r := range []catalog.ContentReader{snap.Reader, again.Reader, direct.Reader} {
		content, err := r.Content(t.Context(), "a", "stable", "a.v2")
		require.NoError(t, err)
		require.Equal(t, [][]byte{[]byte("kind: X")}, content.Manifests)
		_, err = r.Content(t.Context(), "a", "stable", "a.v1")
		require.ErrorIs(t, err, catalog.ErrNoContent)
	}
	_, err = s.Snapshot("other", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestIgnoresDamagedData(t *testing.T) {
	for name, damage := range map[string]func(index []byte) []byte{
		"truncated":       func(index []byte) []byte { return index[:len(index)-10] },
		"empty":           func([]byte) []byte { return nil },
		"modified":        func(index []byte) []byte { return []byte(strings.Replace(string(index), "stable", "strange", 1)) },
		"another version": func(index []byte) []byte { return []byte(strings.Replace(string(index), format, "x", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), 0)
			snap, contents := load(t, s, "kind: X")
			require.NoError(t, s.PutSnapshot("key", snap, contents))
			path := s.path(dirCatalogs, "key"+suffixIndex)
			index, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, damage(index), 0o600))
			_, err = s.Snapshot("key", nil)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.NoFileExists(t, path)
		})
	}
	t.Run("truncated contents", func(t *testing.T) {
		s := open(t, t.TempDir(), 0)
		snap, contents := load(t, s, "kind: X")
		require.NoError(t, s.PutSnapshot("key", snap, contents))
		require.NoError(t, os.Truncate(s.path(dirCatalogs, "key"+suffixContents), 3))
		_, err := s.Snapshot("key", nil)
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
	t.Run("failed writes", func(t *testing.T) {
		contents, err := open(t, t.TempDir(), 0).NewContents(0, nil)
		require.NoError(t, err)
		require.NoError(t, contents.file.Close())
		_, err = fbc.Loader{Contents: contents}.Load(t.Context(), files("kind: X"))
		require.ErrorIs(t, err, ErrWrite)
		require.ErrorIs(t, err, fs.ErrClosed)
	})
	t.Run("modified contents", func(t *testing.T) {
		s := open(t, t.TempDir(), 0)
		snap, contents := load(t, s, "kind: X")
		require.NoError(t, s.PutSnapshot("key", snap, contents))
		require.NoError(t, os.WriteFile(s.path(dirCatalogs, "key"+suffixContents), []byte("\x00\x07kind: Y"), 0o600))
		again, err := s.Snapshot("key", nil)
		require.NoError(t, err)
		_, err = again.Reader.Content(t.Context(), "a", "", "a.v2")
		require.ErrorIs(t, err, errDamaged)
	})
}

func TestStoresBundlesByKey(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	content := &catalog.Content{Manifests: [][]byte{[]byte("a"), {}, []byte(strings.Repeat("b", 300))}}
	key := Key("example.com/a", "sha256:1")
	require.NotEqual(t, key, Key("example.com/b", "sha256:1"), "the key depends on the repository")
	_, err := s.Bundle(key)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, s.PutBundle(key, content))
	got, err := s.Bundle(key)
	require.NoError(t, err)
	require.Equal(t, content.Digest(), got.Digest())
	require.Empty(t, got.Names)
	content.Names = []string{"a.yaml", "", "b.yaml"}
	content.Warnings = []string{"first", "second"}
	require.NoError(t, s.PutBundle(key, content))
	got, err = s.Bundle(key)
	require.NoError(t, err)
	require.Equal(t, content, got)

	path := s.path(dirBundles, key)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)-1]++
	require.NoError(t, os.WriteFile(path, data, 0o600))
	_, err = s.Bundle(key)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestDeletesTheOldestBeyondTheLimit(t *testing.T) {
	s := open(t, t.TempDir(), 2*block+500)
	content := &catalog.Content{Manifests: [][]byte{[]byte(strings.Repeat("x", 1000))}}
	for i, key := range []string{"a", "b"} {
		require.NoError(t, s.PutBundle(key, content))
		at := time.Now().Add(time.Duration(i-10) * time.Minute)
		require.NoError(t, os.Chtimes(s.path(dirBundles, key), at, at))
	}
	_, err := s.Bundle("a")
	require.NoError(t, err, "bundle a is now the most recently used")
	require.NoError(t, s.PutBundle("c", content))
	_, err = s.Bundle("b")
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, key := range []string{"a", "c"} {
		_, err = s.Bundle(key)
		require.NoError(t, err)
	}
	t.Run("a catalog in use stays readable", func(t *testing.T) {
		s := open(t, t.TempDir(), 10)
		snap, contents := load(t, s, "kind: X")
		require.NoError(t, s.PutSnapshot("key", snap, contents))
		require.FileExists(t, s.path(dirCatalogs, "key"+suffixContents), "deleting an open file would not free space")
		_, err := snap.Reader.Content(t.Context(), "a", "", "a.v2")
		require.NoError(t, err)
		require.NoError(t, contents.Close())
		require.NoError(t, s.Sweep())
		require.NoFileExists(t, s.path(dirCatalogs, "key"+suffixContents))
		_, err = snap.Reader.Content(t.Context(), "a", "", "a.v2")
		require.ErrorIs(t, err, fs.ErrClosed)
	})
}

func TestADirectoryHasOneUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := open(t, dir, 0)
	work, _, err := s.Work()
	require.NoError(t, err)
	_, err = Open(dir, 0)
	require.ErrorContains(t, err, "used by another program")
	require.NoError(t, s.Close())
	again := open(t, dir, 0)
	require.NoDirExists(t, work, "temporary files are deleted")
	require.NoError(t, again.Close())

	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = Open(dir, 0)
	require.ErrorContains(t, err, "is world-writable")

	passing := open(t, "", 0)
	require.DirExists(t, passing.dir)
	require.NoError(t, passing.Close())
	require.NoDirExists(t, passing.dir)
}

func TestLimitsContents(t *testing.T) {
	contents, err := open(t, t.TempDir(), 0).NewContents(100, nil)
	require.NoError(t, err)
	_, err = fbc.Loader{Contents: contents}.Load(t.Context(), files(strings.Repeat("a", 200)))
	require.ErrorContains(t, err, "larger than allowed")
	require.NotErrorIs(t, err, ErrWrite, "an exceeded limit is not a disk error")
	require.Zero(t, contents.Size())
}

func TestACatalogIsInUseUntilAllReadersCloseIt(t *testing.T) {
	s := open(t, t.TempDir(), 1)
	snap, contents := load(t, s, "kind: X")
	require.NoError(t, s.PutSnapshot("key", snap, contents))
	again, err := s.Snapshot("key", nil)
	require.NoError(t, err)
	require.NoError(t, contents.Close())
	require.NoError(t, s.Sweep())
	require.FileExists(t, s.path(dirCatalogs, "key"+suffixContents))
	require.NoError(t, again.Reader.(*Contents).Close())
	require.NoError(t, s.Sweep())
	require.NoFileExists(t, s.path(dirCatalogs, "key"+suffixContents))
}

func TestDeletesADroppedCatalogAfterItsLastUse(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	snap, contents := load(t, s, "kind: X")
	require.NoError(t, s.PutSnapshot("key", snap, contents))
	again, err := s.Snapshot("key", nil)
	require.NoError(t, err)
	other := again.Reader.(*Contents)
	contents.Drop()
	contents.Drop()
	require.FileExists(t, s.path(dirCatalogs, "key"+suffixContents), "another reader uses the file")
	_, err = other.Content(t.Context(), "a", "", "a.v2")
	require.NoError(t, err)
	other.Drop()
	require.NoFileExists(t, s.path(dirCatalogs, "key"+suffixContents))
	require.NoFileExists(t, s.path(dirCatalogs, "key"+suffixIndex))
	_, err = s.Snapshot("key", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestContentsReserveSpaceBeforeWriting(t *testing.T) {
	taken := int64(0)
	full := errors.New("no space is left")
	contents, err := open(t, t.TempDir(), 0).NewContents(0, func(n int64) error {
		if taken += n; taken > 100 {
			return full
		}
		return nil
	})
	require.NoError(t, err)
	one := &catalog.Content{Manifests: [][]byte{[]byte(strings.Repeat("a", 80))}}
	require.NoError(t, contents.Put("a", "a.v1", one))
	err = contents.Put("a", "a.v2", one)
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, err, ErrWrite, "a lack of space is a disk error")
	info, err := contents.file.Stat()
	require.NoError(t, err)
	require.EqualValues(t, taken/2, info.Size())
}

// The index of an earlier version named all excluded packages, in one line of any length.
func TestTheFirstLineOfAnIndexHasALimit(t *testing.T) {
	line := `{"format":"` + format + `","excluded":["` + strings.Repeat("a", 2*maxHeader) + `"]}` + "\n"
	from := strings.NewReader(line)
	_, err := readIndex(from, nil, nil)
	require.ErrorIs(t, err, errDamaged)
	require.Greater(t, from.Len(), maxHeader/2, "the rest is not read")
}

func TestAStoredSnapshotIsReadWithinTheMemory(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	contents, err := s.NewContents(0, nil)
	require.NoError(t, err)
	snap, err := fbc.Loader{Contents: contents}.Load(t.Context(), files("kind: X"))
	require.NoError(t, err)
	require.NoError(t, s.PutSnapshot("key", snap, contents))
	full := errors.New("full")
	_, err = s.Snapshot("key", func(int64) error { return full })
	require.ErrorIs(t, err, full)
	kept := int64(0)
	_, err = s.Snapshot("key", func(n int64) error { kept = n; return nil })
	require.NoError(t, err)
	require.GreaterOrEqual(t, kept, snap.Size())
}

// Each file is looked at whenever one is stored.
func TestDeletesTheOldestBeyondTheNumber(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	for i := range maxFiles + 10 {
		require.NoError(t, os.WriteFile(s.path(dirBundles, fmt.Sprint(i)), nil, 0o600))
	}
	require.NoError(t, s.Sweep())
	left, err := os.ReadDir(filepath.Join(s.dir, dirBundles))
	require.NoError(t, err)
	require.Len(t, left, maxFiles)
}
