package fbc

import (
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/remit-olm/remit/pkg/catalog"
)

// limitedFS limits the number of bytes that are read through it, per file and in total. It hides entries whose names
// begin with "..": in a mounted ConfigMap, these contain each file a second time.
type limitedFS struct {
	fs.FS
	maxFile, maxTotal int64
	total             atomic.Int64
}

func newLimitedFS(fsys fs.FS) *limitedFS {
	return &limitedFS{FS: fsys, maxFile: catalog.MaxFileBytes, maxTotal: catalog.MaxCatalogBytes}
}

// Open opens a file whose Read fails beyond the limits. A link can lead to a pipe or a device, which it refuses.
func (l *limitedFS) Open(name string) (fs.File, error) {
	if err := catalog.CheckRegular(l.FS, name); err != nil {
		return nil, err
	}
	f, err := l.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &limitedFile{File: f, fsys: l}, nil
}

// ReadDir lists only directories, regular files and links, because reading pipes and devices could block.
func (l *limitedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(l.FS, name)
	kept := entries[:0]
	for _, e := range entries {
		ordinary := e.IsDir() || e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0
		if ordinary && !strings.HasPrefix(e.Name(), "..") {
			kept = append(kept, e)
		}
	}
	return kept, err
}

type limitedFile struct {
	fs.File
	fsys *limitedFS
	read int64
}

func (f *limitedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.read += int64(n)
	total := f.fsys.total.Add(int64(n))
	switch {
	case f.read > f.fsys.maxFile:
		return 0, fmt.Errorf("file is larger than %d bytes", f.fsys.maxFile)
	case total > f.fsys.maxTotal:
		return 0, tooMuch("the files of the catalog are larger than %d bytes in total", f.fsys.maxTotal)
	}
	return n, err
}
