package fbc

import (
	"bytes"
	"context"
	"io/fs"
	"strings"

	"github.com/joelanford/ignore"
)

// fileIgnore is the name of files that list files to ignore, in the format of .gitignore.
const fileIgnore = ".indexignore"

// Limits for all the .indexignore files of a catalog. The matcher keeps each pattern with the directories above it, and compares
// each file of the catalog with all patterns.
const (
	maxIgnoreBytes    = 64 << 10
	maxIgnorePatterns = 1000
	maxIgnoreDepth    = 64
	// maxIgnoreWork bounds the bytes of all patterns times those of the paths that they are compared with. A pattern with a star is
	// compared at each byte of a path.
	maxIgnoreWork = 2 << 30
)

// matcher matches the files to ignore.
type matcher struct {
	ignore.Matcher
	bytes, work int64
}

// newMatcher returns the matcher of the files to ignore.
func newMatcher(ctx context.Context, fsys fs.FS) (*matcher, error) {
	from := &ignoreFS{FS: fsys, ctx: ctx}
	m, err := ignore.NewMatcher(from, fileIgnore)
	return &matcher{Matcher: m, bytes: int64(from.bytes)}, err
}

// ignores reports whether to ignore a file.
func (m *matcher) ignores(path string) (bool, error) {
	if m.work += m.bytes * int64(len(path)); m.work > maxIgnoreWork {
		return false, tooMuch("comparing the paths of the catalog's files with its %s files takes too long: %d bytes of patterns times the bytes of all paths are more than %d",
			fileIgnore, m.bytes, maxIgnoreWork)
	}
	return m.Match(path, false), nil
}

// ignoreFS enforces the limits for .indexignore files while they are read.
type ignoreFS struct {
	fs.FS
	//nolint:containedctx // the library has no parameter for it
	ctx             context.Context
	bytes, patterns int
}

// ReadDir implements fs.ReadDirFS.
func (i *ignoreFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if i.ctx.Err() != nil {
		return nil, context.Cause(i.ctx)
	}
	return fs.ReadDir(i.FS, name)
}

// Open implements fs.FS.
func (i *ignoreFS) Open(name string) (fs.File, error) {
	file, err := i.FS.Open(name)
	if err != nil || name == "." {
		return file, err
	}
	if strings.Count(name, "/") > maxIgnoreDepth {
		_ = file.Close()
		return nil, tooMuch("a %s file is in more than %d nested directories", fileIgnore, maxIgnoreDepth)
	}
	i.patterns++ // the last line needs no line break
	return &ignoreFile{File: file, all: i}, nil
}

type ignoreFile struct {
	fs.File
	all *ignoreFS
}

// Read implements io.Reader. It counts each line before the library builds its pattern.
func (f *ignoreFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.all.bytes += n
	f.all.patterns += bytes.Count(p[:n], []byte("\n"))
	if f.all.bytes > maxIgnoreBytes || f.all.patterns > maxIgnorePatterns {
		return 0, tooMuch("the %s files of the catalog have more than %d bytes or %d lines in total", fileIgnore, maxIgnoreBytes, maxIgnorePatterns)
	}
	return n, err
}
