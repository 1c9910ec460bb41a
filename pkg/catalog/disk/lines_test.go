package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

func everything(t *testing.T, l *Lines) string {
	t.Helper()
	var out strings.Builder
	for _, line := range l.All() {
		text, err := io.ReadAll(l.Open(line))
		require.NoError(t, err)
		require.Len(t, text, int(line.Length()))
		out.Write(text)
	}
	return out.String()
}

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func keepAll(Line) bool { return true }

func TestLinesAreSortedAndReadAgain(t *testing.T) {
	s := openStore(t)
	w, err := s.NewLines(nil)
	require.NoError(t, err)
	for _, o := range []struct{ schema, pkg, name string }{
		{"olm.channel", "b", "stable"}, {"olm.bundle", "a", "a.v2"}, {"olm.package", "", "b"}, {"olm.bundle", "a", "a.v1"}, {"custom", "", ""}, {"olm.package", "", "a"}, {"olm.bundle", "lost", "x"},
	} {
		require.NoError(t, w.Put(o.schema, o.pkg, o.name, fmt.Appendf(nil, "{\n \"schema\": %q, \"package\": %q, \"name\": %q, \"html\": \"<&>\"}", o.schema, o.pkg, o.name)))
	}
	packages := map[string]*catalog.Package{"a": {}, "b": {}}
	made, err := s.PutLines("key", w, func(l Line) bool { return l.IsOf(packages) })
	require.NoError(t, err)
	w.Discard()
	want := strings.Join([]string{
		`{"schema":"custom","package":"","name":"","html":"<&>"}`,
		`{"schema":"olm.package","package":"","name":"a","html":"<&>"}`,
		`{"schema":"olm.bundle","package":"a","name":"a.v1","html":"<&>"}`,
		`{"schema":"olm.bundle","package":"a","name":"a.v2","html":"<&>"}`,
		`{"schema":"olm.package","package":"","name":"b","html":"<&>"}`,
		`{"schema":"olm.channel","package":"b","name":"stable","html":"<&>"}`,
	}, "\n") + "\n"
	require.Equal(t, want, everything(t, made))

	again, err := s.Lines("key")
	require.NoError(t, err)
	require.Equal(t, want, everything(t, again))
	require.Equal(t, made.Digest(), again.Digest())
	require.Equal(t, made.All(), again.All())
	left, err := filepath.Glob(filepath.Join(s.dir, dirWork, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTheOrderOfObjectsDoesNotMatter(t *testing.T) {
	s := openStore(t)
	digest := func() string {
		w, err := s.NewLines(nil)
		require.NoError(t, err)
		defer w.Discard()
		var group sync.WaitGroup
		for n := range 100 {
			group.Go(func() { _ = w.Put("olm.bundle", "a", fmt.Sprint(n), fmt.Appendf(nil, `{"name":"%d"}`, n)) })
		}
		group.Wait()
		l, err := s.PutLines("key", w, keepAll)
		require.NoError(t, err)
		require.Len(t, l.All(), 100)
		return l.Digest()
	}
	require.Equal(t, digest(), digest())
}

func TestDamagedLinesAreMissing(t *testing.T) {
	s := openStore(t)
	w, err := s.NewLines(nil)
	require.NoError(t, err)
	defer w.Discard()
	require.NoError(t, w.Put("custom", "", "x", []byte(`{"schema":"custom","name":"x"}`)))
	_, err = s.PutLines("key", w, keepAll)
	require.NoError(t, err)
	path := s.path(dirCatalogs, "key"+suffixLines)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, bad := range map[string][]byte{
		"changed": bytes.Replace(good, []byte("x"), []byte("y"), 1), "truncated": good[:len(good)-1], "no footer": good[:bytes.IndexByte(good, '\n')+1],
		"empty": nil, "not JSON": append([]byte("{\n"), good...),
	} {
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		_, err = s.Lines("key")
		require.ErrorIs(t, err, fs.ErrNotExist, name)
		_, err = os.Stat(path)
		require.ErrorIs(t, err, fs.ErrNotExist, name)
	}
}

// The author of a catalog chooses all fields of its objects. None of them can be mistaken for the footer.
func TestAnObjectIsNotAFooter(t *testing.T) {
	s := openStore(t)
	w, err := s.NewLines(nil)
	require.NoError(t, err)
	defer w.Discard()
	first := `{"schema":"custom","name":"a"}` + "\n"
	sum := sha256.Sum256([]byte(first))
	require.NoError(t, w.Put("custom", "", "a", []byte(first)))
	require.NoError(t, w.Put("custom", "", "b", fmt.Appendf(nil, `{"sum":%q,"schema":"custom","name":"b"}`, hex.EncodeToString(sum[:]))))
	require.NoError(t, w.Put("custom", "", "c", []byte(`{"sum":1,"schema":"custom","name":"c"}`)))
	made, err := s.PutLines("key", w, keepAll)
	require.NoError(t, err)
	again, err := s.Lines("key")
	require.NoError(t, err)
	require.Equal(t, everything(t, made), everything(t, again))
}

func TestLinesAreLimited(t *testing.T) {
	s := openStore(t)
	reserved, full := int64(0), errors.New("full")
	w, err := s.NewLines(func(n int64) error {
		if reserved += n; reserved > 100 {
			return full
		}
		return nil
	})
	require.NoError(t, err)
	defer w.Discard()
	require.ErrorContains(t, w.Put("custom", "", strings.Repeat("x", 254), []byte(`{}`)), "at most 253 are allowed")
	require.NoError(t, w.Put("custom", "", "x", []byte(`{}`)))
	require.EqualValues(t, 3, reserved)
	err = w.Put("custom", "", "y", []byte(`"`+strings.Repeat("y", 100)+`"`))
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, err, ErrWrite)
}

// Lines are deleted together with the other files of their catalog, but not while the catalog is in use.
func TestLinesAreDeletedWithTheirCatalog(t *testing.T) {
	s := openStore(t)
	contents, err := s.NewContents(0, nil)
	require.NoError(t, err)
	require.NoError(t, s.PutSnapshot("key", &catalog.Snapshot{Digest: "sha256:1", Packages: map[string]*catalog.Package{}}, contents))
	w, err := s.NewLines(nil)
	require.NoError(t, err)
	defer w.Discard()
	require.NoError(t, w.Put("custom", "", "x", []byte(`{"schema":"custom"}`)))
	l, err := s.PutLines("key", w, keepAll)
	require.NoError(t, err)

	s.limit = 1
	require.NoError(t, s.Sweep())
	_, err = os.Stat(s.path(dirCatalogs, "key"+suffixLines))
	require.NoError(t, err, "it is in use")
	contents.Drop()
	files, err := filepath.Glob(s.path(dirCatalogs, "*"))
	require.NoError(t, err)
	require.Empty(t, files)
	require.Equal(t, "{\"schema\":\"custom\"}\n", everything(t, l), "responses that are being written can be completed")
}
