package fbc

import (
	"context"
	"io/fs"

	"github.com/remit-olm/remit/pkg/catalog"
)

// LoadDirectory calls Loader.LoadDirectory with the zero Loader.
func LoadDirectory(ctx context.Context, fsys fs.FS) (*catalog.Snapshot, error) {
	return Loader{}.LoadDirectory(ctx, fsys)
}

// LoadDirectory reads the bundle directories in a directory (see FromBundles) or, if there are none, a file-based catalog
// (see Load). Bundles that cannot be read are omitted with a warning. Bundle directories have no Objects.
func (l Loader) LoadDirectory(ctx context.Context, fsys fs.FS) (*catalog.Snapshot, error) {
	dirs, err := bundleDirs(newLimitedFS(fsys))
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return l.Load(ctx, fsys)
	}
	bundles, broken, err := readBundles(ctx, fsys)
	if err != nil {
		return nil, err
	}
	cfg, more := render(bundles)
	b := newBuilder(memory{})
	for _, problem := range append(broken, more...) {
		b.problems.add(problem.Error())
	}
	for _, bundle := range bundles {
		b.files[bundleKey{bundle.pkg, bundle.Name}] = bundle.content
	}
	return b.config(cfg)
}
