package fbc

import (
	"context"
	"io/fs"

	"github.com/remit-olm/remit/pkg/catalog"
)

// LoadDirectory reads a directory that holds either a file-based catalog (see Load) or bundle
// directories (see FromBundles): where there is any bundle directory, it is the latter.
func LoadDirectory(ctx context.Context, fsys fs.FS) (*catalog.Snapshot, error) {
	dirs, err := bundleDirs(newLimitedFS(fsys))
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return Load(ctx, fsys)
	}
	cfg, err := FromBundles(fsys)
	if err != nil {
		return nil, err
	}
	return FromConfig(cfg)
}
