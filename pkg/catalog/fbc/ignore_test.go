package fbc

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestLimitsIgnoreFiles(t *testing.T) {
	many := fstest.MapFS{}
	for i := range 1001 {
		many[fmt.Sprintf("%d/.indexignore", i)] = &fstest.MapFile{Data: []byte("a")}
	}
	one := func(name, text string) fs.FS { return fstest.MapFS{name: {Data: []byte(text)}} }
	for _, tt := range []struct {
		name string
		fsys fs.FS
		want string
	}{
		{"as many patterns as allowed", one(".indexignore", strings.Repeat("a\n", 999)+"b"), ""},
		{"too many patterns", one(".indexignore", strings.Repeat("a\n", 1001)), "more than 65536 bytes or 1000 lines"},
		{"too many files", many, "more than 65536 bytes or 1000 lines"},
		{"too long patterns", one(".indexignore", strings.Repeat(strings.Repeat("a", 200)+"\n", 400)), "more than 65536 bytes or 1000 lines"},
		{"as deep as allowed", one(strings.Repeat("d/", 64)+".indexignore", "a"), ""},
		{"too deep", one(strings.Repeat("d/", 65)+".indexignore", "a"), "more than 64 nested directories"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newMatcher(t.Context(), newLimitedFS(tt.fsys))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// endingFS ends a context once the directory has been read a second time: by the walk over the files, after the patterns.
type endingFS struct {
	fs.FS
	end  func()
	read int
}

func (e *endingFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if e.read++; e.read == 2 {
		e.end()
	}
	return fs.ReadDir(e.FS, name)
}

func TestFilesThatAreIgnoredDoNotOutliveTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var l Loader
	_, err := l.Load(ctx, &endingFS{end: cancel, FS: fstest.MapFS{".indexignore": {Data: []byte("f*")}, "f": {}}})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, l.between(ctx), context.Canceled, "before the content is assembled")

	ctx, cancel = context.WithCancel(t.Context())
	_, err = newMatcher(ctx, &endingFS{end: cancel, FS: fstest.MapFS{"a/b": {}, "b/c": {}}})
	require.ErrorIs(t, err, context.Canceled)
}

// A file that is ignored has no documents, but comparing its path takes time.
func TestOtherLoadsProceedBetweenFilesThatAreIgnored(t *testing.T) {
	files := fstest.MapFS{".indexignore": {Data: []byte("f*")}}
	const n = 50
	for i := range n {
		files[fmt.Sprint("f", i)] = &fstest.MapFile{}
	}
	calls := 0
	_, err := Loader{Between: func(context.Context) error { calls++; return nil }}.Load(t.Context(), files)
	require.ErrorContains(t, err, "the catalog is empty")
	require.Equal(t, n+1, calls, "for each file, and before the content is assembled")
}

// The patterns and the paths have limits of their own, but their product took 80 seconds.
func TestLimitsTheProductOfPatternsAndPaths(t *testing.T) {
	files := fstest.MapFS{".indexignore": {Data: []byte(strings.Repeat(strings.Repeat("b", 63)+"\n", 999))}}
	const path = 3500
	add := func(from, to int) {
		for i := from; i < to; i++ {
			files[fmt.Sprint(strings.Repeat(strings.Repeat("a", 249)+"/", path/250), i)] = &fstest.MapFile{Data: []byte(pkgA)}
		}
	}
	fits := maxIgnoreWork / (64 * 999 * (path + 2))
	add(0, fits)
	_, err := Load(t.Context(), files)
	require.NotContains(t, err.Error(), "takes too long")
	add(fits, fits+3)
	_, err = Load(t.Context(), files)
	require.ErrorContains(t, err, "takes too long")
}
