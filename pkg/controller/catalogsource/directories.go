package catalogsource

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

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
	// seen is the mark of the files that were read, if they are unwatched, and compareAt when it may be compared with them again.
	seen      mark
	compareAt time.Time

	usersMu sync.Mutex
	// users are the CatalogSources that use the directory, each with the state in which it last had unwatched files compared.
	users map[types.NamespacedName]string
}

func newDirectories(paths map[string]string) *directories {
	d := &directories{byImage: make(map[string]*directory, len(paths))}
	byPath := map[string]*directory{}
	for image, path := range paths {
		if byPath[path] == nil {
			byPath[path] = &directory{path: path, users: map[types.NamespacedName]string{}}
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
		if _, uses := dir.users[key]; !uses {
			dir.users[key] = ""
		}
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

func (d *directory) isCompared(user types.NamespacedName, state string) bool {
	d.usersMu.Lock()
	defer d.usersMu.Unlock()
	return d.users[user] == state
}

func (d *directory) setCompared(user types.NamespacedName, state string) {
	d.usersMu.Lock()
	defer d.usersMu.Unlock()
	if _, uses := d.users[user]; uses {
		d.users[user] = state
	}
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

// comparing is the part of the time that may be spent with comparing the files of a directory, of which all users wait for each
// other: one twentieth.
const comparing = 20

// load reads the files unless they are as they were. It keeps the last good content of a directory
// that is malformed or gone, for as long as the program runs. It is asked for a CatalogSource in some state: files that nobody
// watches are compared once for each state. again is when to ask again, if it is too early to compare them.
func (d *directory) load(ctx context.Context, user types.NamespacedName, state string) (seen content, again time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	version := d.version.Load() + 1
	if d.loaded == version {
		isChanged, again := d.isChanged(user, state)
		if !isChanged {
			return d.content, again
		}
	}
	if d.loaded == 0 || d.unwatched.Load() { // before the files are read, so that no change is lost in between
		d.follow(ctx)
	}
	var now mark
	if d.unwatched.Load() {
		now = d.compare()
	}
	snap, err := d.read(ctx)
	if ctx.Err() != nil {
		return content{good: d.good, err: ctx.Err()}, 0
	}
	if d.err = err; err == nil {
		d.content = d.with(snap)
	}
	d.loaded, d.seen = version, now
	d.setCompared(user, state)
	return d.content, 0
}

// follow begins to watch the files. Where that is not possible, they are compared with what was read once for each change of a
// CatalogSource which uses them.
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

// isChanged reports whether files that nobody watches have changed since they were read, or when they may be compared again.
func (d *directory) isChanged(user types.NamespacedName, state string) (changed bool, again time.Duration) {
	if !d.unwatched.Load() || d.isCompared(user, state) {
		return false, 0
	}
	if wait := time.Until(d.compareAt); wait > 0 {
		return false, wait
	}
	d.setCompared(user, state)
	return d.compare() != d.seen, 0
}

// compare takes the mark of the files.
func (d *directory) compare() mark {
	start := time.Now()
	now := markOf(d.path)
	d.compareAt = time.Now().Add(comparing * time.Since(start))
	return now
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
