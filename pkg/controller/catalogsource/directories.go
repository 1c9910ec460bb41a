package catalogsource

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
)

// directories are the catalogs that the installation's own configuration keeps in directories.
type directories struct {
	byImage map[string]*directory
	// all are the same without repetition: two images may share a directory.
	all []*directory
}

// directory is one of them, read once and again after a change.
type directory struct {
	path string
	// watch begins to watch the files; nil where nobody does.
	watch func(path string) error
	// version grows with each change of the files.
	version atomic.Uint64

	mu sync.Mutex
	// loaded is the version that content is from, plus one; zero is never.
	loaded uint64
	content

	usersMu sync.Mutex
	users   map[types.NamespacedName]bool
}

func newDirectories(paths map[string]string) *directories {
	d := &directories{byImage: make(map[string]*directory, len(paths))}
	byPath := map[string]*directory{}
	for image, path := range paths {
		if byPath[path] == nil {
			byPath[path] = &directory{path: path, users: map[types.NamespacedName]bool{}}
			d.all = append(d.all, byPath[path])
		}
		d.byImage[image] = byPath[path]
	}
	return d
}

// use returns the directory of an image for a CatalogSource, which is woken by its changes from now on.
func (d *directories) use(key types.NamespacedName, image string) (*directory, bool) {
	dir, ok := d.byImage[image]
	for _, other := range d.all {
		if other != dir {
			other.drop(key)
		}
	}
	if ok {
		dir.usersMu.Lock()
		defer dir.usersMu.Unlock()
		dir.users[key] = true
	}
	return dir, ok
}

func (d *directories) drop(key types.NamespacedName) {
	for _, dir := range d.all {
		dir.drop(key)
	}
}

func (d *directory) drop(key types.NamespacedName) {
	d.usersMu.Lock()
	defer d.usersMu.Unlock()
	delete(d.users, key)
}

func (d *directory) userKeys() []types.NamespacedName {
	d.usersMu.Lock()
	defer d.usersMu.Unlock()
	keys := make([]types.NamespacedName, 0, len(d.users))
	for key := range d.users {
		keys = append(keys, key)
	}
	return keys
}

// load reads the files unless they are as they were. It keeps the last good content of a directory
// that is malformed or gone, for as long as the program runs.
func (d *directory) load(ctx context.Context) content {
	d.mu.Lock()
	defer d.mu.Unlock()
	version := d.version.Load() + 1
	if d.loaded == version {
		return d.content
	}
	if d.loaded == 0 && d.watch != nil {
		// Before the files are read, so that no change is lost in between.
		if err := d.watch(d.path); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Watching catalog directory", "directory", d.path)
		}
	}
	snap, err := d.read(ctx)
	if ctx.Err() != nil {
		return content{good: d.good, err: ctx.Err()}
	}
	if d.err = err; err == nil {
		d.good = snap
	}
	d.loaded = version
	return d.content
}

func (d *directory) read(ctx context.Context) (*catalog.Snapshot, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: %w", d.path, fs.ErrInvalid)
	}
	return fbc.LoadDirectory(ctx, os.DirFS(d.path))
}
