package catalogsource

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/catalog/display"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/lib/keyed"
)

// directories contains the catalogs in directories that the installation configures.
type directories struct {
	byImage map[string]*directory
	// all contains each directory once, because several images can use the same one.
	all []*directory
}

// directory is one catalog directory. It is read when it is first used and after each change.
type directory struct {
	path string
	// disk stores the manifests, and the parts of the content that are only displayed, such as icons. If it is nil, the manifests
	// are in memory and the other parts are not available.
	disk *disk.Store
	// watch starts watching the files; nil if they are not watched.
	watch func(path string) error
	// version increases with each change to the files.
	version atomic.Uint64
	// unwatched means that no watch reports changes to the files.
	unwatched atomic.Bool

	mu sync.Mutex
	// loaded is the version of the content plus one, or zero if nothing was loaded.
	loaded uint64
	content
	// seen identifies the state of the files when they were read, if they are unwatched. They are not compared again
	// before compareAt.
	seen      mark
	compareAt time.Time
	// readAt is when the files are read again because the local disk was full; zero if they are not.
	readAt time.Time

	// users maps each CatalogSource that uses the directory to its state when unwatched files were last compared for
	// it.
	users keyed.Map[types.NamespacedName, string]
}

func newDirectories(paths map[string]string, disk *disk.Store) *directories {
	d := &directories{byImage: make(map[string]*directory, len(paths))}
	byPath := map[string]*directory{}
	for image, path := range paths {
		if byPath[path] == nil {
			byPath[path] = &directory{path: path, disk: disk}
			d.all = append(d.all, byPath[path])
		}
		d.byImage[image] = byPath[path]
	}
	return d
}

// use returns the directory that an image is mapped to, if any. From then on, changes to the directory wake the
// CatalogSource.
func (d *directories) use(key types.NamespacedName, image string) (*directory, bool) {
	dir, ok := d.byImage[image]
	for _, other := range d.all {
		if other != dir {
			other.users.Delete(key)
		}
	}
	if ok {
		dir.users.Change(key, func(*string) {}) // keep the state of an earlier comparison
	}
	return dir, ok
}

func (d *directories) drop(key types.NamespacedName) {
	for _, dir := range d.all {
		dir.users.Delete(key)
	}
}

// comparing limits the fraction of time spent comparing the files in a directory to about one twentieth, because the
// CatalogSources that use the directory wait for each other.
const comparing = 20

// load returns the content for a CatalogSource that uses the directory. It reads the files only if they have changed.
// If a directory is malformed or missing, its last good content is kept as long as the program runs. Unwatched files
// are compared once for each new state of a CatalogSource. If it is too early to compare the files, again is the delay
// after which to call load again.
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
	if d.loaded == 0 || d.unwatched.Load() { // the watch must start before the files are read, so that no change is missed
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
		d.content = d.updatedWith(snap)
	}
	d.loaded, d.seen, d.readAt = version, now, time.Time{}
	d.users.Set(user, state)
	if errors.Is(err, disk.ErrWrite) { // no change to the files reports that there is space again
		again = lastReload
		d.readAt = time.Now().Add(again)
	}
	return d.content, again
}

// follow starts watching the files. If that fails, load checks them for changes once for each change to a CatalogSource
// that uses them.
func (d *directory) follow(ctx context.Context) {
	if d.watch == nil {
		return
	}
	err := d.watch(d.path)
	if old := d.unwatched.Swap(err != nil); err != nil && !old {
		ctrl.LoggerFrom(ctx).Info("Warning: cannot watch a catalog directory; it is read again only when a CatalogSource that uses it changes. "+
			"Increase fs.inotify.max_user_instances or fs.inotify.max_user_watches on the node", "directory", d.path, "reason", err.Error())
	}
}

// isChanged reports whether files that the local disk had no space for are to be read again, or unwatched files have changed
// since they were read. If it is too early to read or compare them, it returns the delay until then.
func (d *directory) isChanged(user types.NamespacedName, state string) (changed bool, again time.Duration) {
	if !d.readAt.IsZero() {
		wait := time.Until(d.readAt)
		return wait <= 0, max(wait, 0)
	}
	if !d.unwatched.Load() || d.users.Get(user) == state {
		return false, 0
	}
	if wait := time.Until(d.compareAt); wait > 0 {
		return false, wait
	}
	d.users.Set(user, state)
	return d.compare() != d.seen, 0
}

// compare returns a mark that identifies the current state of the files, and sets the time of the next comparison.
func (d *directory) compare() mark {
	start := time.Now()
	now := markOf(d.path)
	d.compareAt = time.Now().Add(comparing * time.Since(start))
	return now
}

func (d *directory) read(ctx context.Context) (snap *catalog.Snapshot, err error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: %w", d.path, fs.ErrInvalid)
	}
	var loader fbc.Loader
	if d.disk == nil {
		return loader.LoadDirectory(ctx, os.DirFS(d.path))
	}
	contents, err := d.disk.NewContents(0, nil)
	if err != nil {
		return nil, err
	}
	if err := contents.Unlink(); err != nil {
		return nil, errors.Join(disk.WriteError(err), contents.Close())
	}
	loader.Contents = contents
	defer func() {
		if err != nil {
			_ = contents.Close() // its space may be what the disk lacks
		}
	}()
	shown, err := display.Record(d.disk, &loader, nil)
	if err != nil {
		return nil, err
	}
	defer shown.Discard()
	snap, err = loader.LoadDirectory(ctx, os.DirFS(d.path))
	if err == nil {
		err = shown.Finish("", snap)
	}
	return snap, err
}

// mark identifies the state of a directory tree by the names, sizes and times of its files, without reading them.
type mark [sha256.Size]byte

// maxMarked bounds the number of files in a mark. A change to any other file is detected only if a marked file changes as well.
const maxMarked = 100_000

func markOf(root string) (out mark) {
	h := sha256.New()
	left := maxMarked
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %s %d %d\n", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		return nil
	})
	fmt.Fprintf(h, "%v", err)
	h.Sum(out[:0])
	return out
}
