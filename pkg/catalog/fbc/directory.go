package fbc

import (
	"context"
	"io/fs"

	"github.com/remit-olm/remit/pkg/catalog"
)

// LoadDirectory reads a directory that holds either a file-based catalog (see Load) or bundle
// directories (see FromBundles): where there is any bundle directory, it is the latter. A bundle that cannot be read is left
// out, with a warning.
func LoadDirectory(ctx context.Context, fsys fs.FS) (*catalog.Snapshot, error) {
	dirs, err := bundleDirs(newLimitedFS(fsys))
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return Load(ctx, fsys)
	}
	bundles, broken, err := readBundles(fsys)
	if err != nil {
		return nil, err
	}
	cfg, more := render(bundles)
	b := newBuilder(memory{})
	for _, problem := range append(broken, more...) {
		b.problems.add(problem.Error())
	}
	for _, of := range bundles {
		b.files[bundleKey{of.pkg, of.Name}] = of.content.Names
	}
	return b.config(cfg)
}
