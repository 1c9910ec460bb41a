package fbc

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"io/fs"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Loader reads catalogs. The zero value uses the limits of the global catalog namespace, never waits for memory, and stores
// manifests in memory.
type Loader struct {
	Limits catalog.DecodingLimits
	// Decoding is shared by all loaders.
	Decoding *catalog.Decoding
	// Contents stores the manifests.
	Contents Contents
	// AnyDefault accepts packages without a default channel, as OLM v1 does: ClusterExtensions do not use it. For CatalogSources,
	// such packages are excluded.
	AnyDefault bool
	// Objects, if set, receives every object of the catalog as JSON, including those with schemas that Remit does not use.
	// It may be called concurrently, and must not retain the document. If it returns an error, the load stops.
	Objects func(schema, pkg, name string, document []byte) error
	// Take reserves memory: kept is the total size of the retained data, including the data that is retained next. If Take is
	// nil, no reservation is needed. It is not called concurrently. Load returns any error from Take.
	Take func(kept int64) error
	// Between, if set, is called between documents and files, possibly concurrently. If it returns an error, the load stops.
	Between func(context.Context) error
}

// Load reads all files below the root of fsys, except those that .indexignore files match. The caller sets Key and Priority of
// the Snapshot before publishing it.
func (l Loader) Load(ctx context.Context, fsys fs.FS) (*catalog.Snapshot, error) {
	limited := newLimitedFS(fsys)
	matcher, err := newMatcher(ctx, limited)
	if err != nil {
		return nil, err
	}
	b := l.builder()
	parent := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	err = fs.WalkDir(limited, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == fileIgnore {
			return cmp.Or(context.Cause(ctx), err)
		}
		// Files that are ignored take time as well.
		if err := l.between(ctx); err != nil {
			return err
		}
		if ignored, err := matcher.ignores(path); ignored || err != nil {
			return err
		}
		group.Go(func() error { return l.file(ctx, b, limited, path) })
		return ctx.Err()
	})
	if failed := group.Wait(); failed != nil {
		return nil, failed
	}
	if err == nil {
		err = l.between(parent)
	}
	if err != nil {
		return nil, err
	}
	return b.snapshot()
}

// between lets other loads proceed. The caller must not hold reserved memory.
func (l Loader) between(ctx context.Context) error {
	if l.Between == nil {
		return context.Cause(ctx)
	}
	return l.Between(ctx)
}

// FromFiles reads a catalog from files given by name.
func (l Loader) FromFiles(ctx context.Context, files map[string][]byte) (*catalog.Snapshot, error) {
	b := l.builder()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := l.read(ctx, b, name, bytes.NewReader(files[name])); err != nil {
			return nil, err
		}
	}
	return b.snapshot()
}

func (l *Loader) builder() *builder {
	if l.Contents == nil {
		l.Contents = memory{}
	}
	l.Limits = cmp.Or(l.Limits, catalog.GlobalDecoding())
	b := newBuilder(l.Contents)
	b.anyDefault = l.AnyDefault
	b.kept = catalog.Kept{Max: l.Limits.Kept, Take: l.Take}
	b.objects = l.Objects
	return b
}

func (l Loader) file(ctx context.Context, b *builder, fsys fs.FS, path string) error {
	f, err := fsys.Open(path)
	if err != nil {
		return b.broken(path, err, nil)
	}
	defer f.Close()
	return l.read(ctx, b, path, f)
}

// read adds the documents of a file. It records problems with the file, and returns an error only if the load must
// stop.
func (l Loader) read(ctx context.Context, b *builder, path string, file io.Reader) error {
	packages := map[string]bool{}
	d := &documents{Loader: l, all: &b.yamlBytes, add: func(document []byte) error {
		pkg, err := b.addDocument(document)
		if pkg == "" {
			return err
		}
		if !packages[pkg] {
			if full := b.keepName(pkg); full != nil {
				return full
			}
			packages[pkg] = true
		}
		if err == nil {
			return nil
		}
		return b.brokenPackage(path, pkg, err)
	}}
	err := d.read(ctx, file)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if full := b.full(); full != nil {
		return full
	}
	return b.broken(path, err, packages)
}
