package volume

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	dataLink    = "..data"
	dataLinkTmp = "..data_tmp"
	dirPattern  = "..rev-*"
)

// file is one file of a volume. Its path is relative and can contain directories.
type file struct {
	data []byte
	mode fs.FileMode
}

type payload map[string]file

// publish makes dir contain exactly the payload, atomically for readers that use the links. If dir already contains it,
// publish does nothing.
//
//	dir/..rev-1234/key    the content
//	dir/..data            -> ..rev-1234, replaced by rename
//	dir/key               -> ..data/key
func publish(dir string, want payload) error {
	if shows(dir, want) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, _ := os.Readlink(filepath.Join(dir, dataLink))
	revision, err := os.MkdirTemp(dir, dirPattern)
	if err != nil {
		return err
	}
	if err := write(revision, want); err != nil {
		return errors.Join(err, os.RemoveAll(revision))
	}
	tmp := filepath.Join(dir, dataLinkTmp)
	_ = os.Remove(tmp)
	if err := os.Symlink(filepath.Base(revision), tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	if err := link(dir, want); err != nil {
		return err
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

func shows(dir string, want payload) bool {
	base := filepath.Join(dir, dataLink)
	if _, err := os.Stat(base); err != nil {
		return false
	}
	seen := 0
	err := filepath.WalkDir(base+"/", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(path) //nolint:gosec // only this process writes below base
		if err != nil {
			return err
		}
		if w, ok := want[name]; !ok || !bytes.Equal(w.data, got) {
			return fs.ErrNotExist
		}
		seen++
		return nil
	})
	return err == nil && seen == len(want)
}

func write(dir string, files payload) error {
	for name, f := range files {
		path := filepath.Join(dir, name)
		if !strings.HasPrefix(path, dir+string(filepath.Separator)) {
			return errors.New("path is outside the volume: " + name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		// The process that reads the file owns it here, so a mode that is meant for another user must not deny access.
		if err := os.WriteFile(path, f.data, f.mode|0o400); err != nil {
			return err
		}
	}
	return nil
}

// link points the top-level names to the current revision and removes obsolete ones. It keeps other names (mounts
// nested in this volume).
func link(dir string, files payload) error {
	top := map[string]bool{}
	for name := range files {
		first, _, _ := strings.Cut(name, string(filepath.Separator))
		top[first] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		target, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(target, dataLink+"/") {
			continue
		}
		if !top[e.Name()] {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
		delete(top, e.Name())
	}
	for name := range top {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}
