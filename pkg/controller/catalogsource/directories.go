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
	// unwatched says that changes of the files are not noticed.
	unwatched atomic.Bool

	mu sync.Mutex
	// loaded is the version that content is from, plus one; zero is never.
	loaded uint64
	content
	// seen is the mark of the files that were read, if they are unwatched.
	seen mark

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
	if d.loaded == version && !d.isChanged() {
		return d.content
	}
	if d.loaded == 0 || d.unwatched.Load() { // before the files are read, so that no change is lost in between
		d.follow(ctx)
	}
	var seen mark
	if d.unwatched.Load() {
		seen = markOf(d.path)
	}
	snap, err := d.read(ctx)
	if ctx.Err() != nil {
		return content{good: d.good, err: ctx.Err()}
	}
	if d.err = err; err == nil {
		d.content = d.with(snap)
	}
	d.loaded, d.seen = version, seen
	return d.content
}

// follow begins to watch the files. Where that is not possible, they are compared with what was read each time that a
// CatalogSource which uses them is reconciled: after a change of it or of the labels of its namespace, for instance.
func (d *directory) follow(ctx context.Context) {
	if d.watch == nil {
		return
	}
	err := d.watch(d.path)
	if was := d.unwatched.Swap(err != nil); err != nil && !was {
		ctrl.LoggerFrom(ctx).Info("Warning: cannot watch a catalog directory; it is read again when a CatalogSource that uses it changes. "+
			"Raise fs.inotify.max_user_instances or fs.inotify.max_user_watches of the machine", "directory", d.path, "reason", err.Error())
	}
}

// isChanged says whether files that nobody watches have changed since they were read.
func (d *directory) isChanged() bool { return d.unwatched.Load() && markOf(d.path) != d.seen }

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
