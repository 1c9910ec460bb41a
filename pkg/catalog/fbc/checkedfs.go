package fbc

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/manifest"
)

// checkedFS reads each file as it is opened and refuses it before anybody expands its aliases.
type checkedFS struct{ *limitedFS }

// Open returns a file that is in memory.
func (c checkedFS) Open(name string) (fs.File, error) {
	f, err := c.limitedFS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, err
	}
	data, err := io.ReadAll(f)
	if err == nil {
		err = manifest.CheckAliases(data)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("file %q: %w", name, err)
	}
	return &memoryFile{File: f, Reader: bytes.NewReader(catalog.EndLine(data))}, nil
}

// memoryFile reads from memory what File was asked for.
type memoryFile struct {
	fs.File
	*bytes.Reader
}

// Read reads from memory.
func (m *memoryFile) Read(p []byte) (int, error) { return m.Reader.Read(p) }
