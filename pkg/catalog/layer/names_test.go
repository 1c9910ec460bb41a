package layer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

func extractionIn(t *testing.T, dir string) *extraction {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return newExtraction(root, "configs")
}

func enter(e *extraction, name string) error {
	return e.entry(&tar.Header{Name: name, Typeflag: tar.TypeReg}, strings.NewReader(""))
}

// A whiteout takes no bytes of the catalog, but its name is kept for the layers below.
func TestLimitsTheNamesOfRemovedFiles(t *testing.T) {
	e, long := extractionIn(t, t.TempDir()), strings.Repeat("n", 4000)
	fits := MaxHiddenBytes / 5000
	for i := range fits {
		require.NoError(t, enter(e, fmt.Sprintf("configs/.wh.%d%s", i, long)))
	}
	used := e.hiddenBytes
	require.NotZero(t, used)
	require.NoError(t, enter(e, "configs/.wh.0"+long))
	require.NoError(t, enter(e, "usr/.wh."+long))
	require.Equal(t, used, e.hiddenBytes, "neither a name that was there before nor one outside the catalog takes memory")
	var err error
	for i := 0; err == nil && i < 2*fits; i++ {
		err = enter(e, fmt.Sprintf("configs/.wh.x%d%s", i, long))
	}
	require.ErrorIs(t, err, image.ErrImage)
	require.ErrorContains(t, err, `in catalog directory "configs" take more than`)
}

// The names of the files of tenants take little memory, because many tenants may have a slow registry.
func TestLimitsTheNamesOfTheFilesOfTenants(t *testing.T) {
	from := open(t, registry.New(t), nil, layer(t, "configs/a/b/c=a", "configs/a/d=b"))
	need := len("configs/a/b/c"+"configs/a/d") + 4*hiddenOverhead
	require.NoError(t, Extract(t.Context(), from, "configs", Target{Dir: t.TempDir(), MaxNames: need}))
	err := Extract(t.Context(), from, "configs", Target{Dir: t.TempDir(), MaxNames: need - 1})
	require.ErrorIs(t, err, image.ErrImage)
	require.ErrorContains(t, err, "take more than 279 bytes")
}

func TestHiddenParents(t *testing.T) {
	e := extractionIn(t, t.TempDir())
	e.hidden = map[string]bool{"configs/a": true, "configs/b/": true}
	for name, want := range map[string]bool{
		"configs/a": true, "configs/a/x/y": true, "configs/ab": false, "configs/b": false, "configs/b/x": true, "configs/b/x/y": true, "configs": false, "": false,
	} {
		require.Equal(t, want, e.isHidden(name), name)
	}
	e.hidden["/"] = true
	require.True(t, e.isHidden("configs/ab"))
}

// A canceled read is not a defect of the image, and reads no more entries.
func TestACanceledReadEndsBetweenEntries(t *testing.T) {
	from := open(t, registry.New(t), nil, layer(t, "configs/a=a", "configs/b=b", "configs/c=c"))
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	err := Extract(ctx, from, "configs", Target{Dir: dir, Take: func(int64) error { cancel(); return nil }})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, image.ErrImage)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// A file without content can be in many directories, which take space and inodes.
func TestCountsDirectories(t *testing.T) {
	dir := t.TempDir()
	e, taken := extractionIn(t, dir), int64(0)
	e.take = func(n int64) error { taken += n; return nil }
	deepest := "configs/" + strings.Repeat("a/", MaxDepth) + "b"
	require.NoError(t, enter(e, deepest))
	require.EqualValues(t, MaxDepth*directoryBytes, taken)
	require.NoError(t, enter(e, deepest+"2"))
	require.NoError(t, enter(e, "configs/c"))
	require.EqualValues(t, MaxDepth*directoryBytes, taken, "a directory counts once")

	full := errors.New("no space is left")
	e.take = func(int64) error { return full }
	require.ErrorIs(t, enter(e, "configs/refused/x"), full)
	require.NoDirExists(t, filepath.Join(dir, "refused"))
}

func TestLimitsDirectories(t *testing.T) {
	dir := t.TempDir()
	e := extractionIn(t, dir)
	deep := strings.Repeat("d/", MaxDepth+1) + "b"
	require.NoError(t, enter(e, "usr/"+deep))
	err := enter(e, "configs/"+deep)
	require.ErrorIs(t, err, image.ErrImage)
	require.ErrorContains(t, err, "65 directories below catalog directory")

	for i := range MaxDirectories { // the names of files take more memory than that
		e.dirs[fmt.Sprint("before/", i)] = true
	}
	err = enter(e, "configs/one/more")
	require.ErrorIs(t, err, image.ErrImage)
	require.ErrorContains(t, err, "more than 100000 directories")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}
