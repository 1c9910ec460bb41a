//go:build linux

// Package tmpfs provides tests with a small file system that they can fill up.
package tmpfs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Disk is an in-memory file system.
type Disk struct{ Dir string }

// New mounts a file system of the given size. It skips the test if mounting is not permitted.
func New(t testing.TB, size string) *Disk {
	t.Helper()
	d := &Disk{Dir: t.TempDir()}
	if err := syscall.Mount("tmpfs", d.Dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		t.Skipf("mounting a tmpfs requires root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(d.Dir, syscall.MNT_DETACH) })
	return d
}

// Fill leaves the given number of bytes free, rounded down to whole pages.
func (d *Disk) Fill(t testing.TB, left int64) {
	t.Helper()
	d.Free(t)
	var stat syscall.Statfs_t
	require.NoError(t, syscall.Statfs(d.Dir, &stat))
	filler := make([]byte, max(0, int64(stat.Bavail)*stat.Bsize-left))
	require.NoError(t, os.WriteFile(d.filler(), filler, 0o600))
}

// Free deletes the files that Fill wrote.
func (d *Disk) Free(t testing.TB) {
	t.Helper()
	require.NoError(t, os.RemoveAll(d.filler()))
}

func (d *Disk) filler() string { return filepath.Join(d.Dir, "filler") }
