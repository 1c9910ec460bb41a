package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// settle is how long files must be unchanged before they are read again: catalogs are copied file by file, and an
// incomplete catalog is malformed.
const settle = 250 * time.Millisecond

// watcher is a manager.Runnable that detects changes to the files in the directories. It starts watching a directory
// when the directory is first loaded.
type watcher struct {
	dirs   []*directory
	wake   func(types.NamespacedName)
	notify *fsnotify.Watcher
	dirty  map[*directory]bool
}

// newWatcher returns nil if no watch can be created, for example because the limit of inotify instances is reached. In
// that case, the files of a directory are checked for changes whenever a CatalogSource that uses it changes.
func newWatcher(d *directories, wake func(types.NamespacedName), open func() (*fsnotify.Watcher, error)) *watcher {
	notify, err := open()
	if err != nil {
		for _, dir := range d.all {
			dir.watch = func(string) error { return err }
		}
		return nil
	}
	w := &watcher{dirs: d.all, wake: wake, notify: notify, dirty: map[*directory]bool{}}
	for _, dir := range d.all {
		dir.watch = w.watch
	}
	return w
}

// Start wakes the users of changed directories until ctx is done.
func (w *watcher) Start(ctx context.Context) error {
	defer w.notify.Close()
	timer := time.NewTimer(settle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-w.notify.Events:
			if w.mark(event) {
				timer.Reset(settle)
			}
		case err := <-w.notify.Errors:
			// Events were lost, so any directory may have changed.
			ctrl.LoggerFrom(ctx).Error(err, "Missed changes to catalog directories")
			for _, dir := range w.dirs {
				w.dirty[dir] = true
			}
			timer.Reset(settle)
		case <-timer.C:
			w.flush(ctx)
		}
	}
}

// mark marks the directories that contain the path of an event, or are below it. It reports whether it marked any.
func (w *watcher) mark(event fsnotify.Event) bool {
	if event.Op == fsnotify.Chmod {
		return false
	}
	marked := false
	for _, dir := range w.dirs {
		if within(event.Name, dir.path) || within(dir.path, event.Name) {
			w.dirty[dir] = true
			marked = true
		}
	}
	return marked
}

func within(path, root string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// flush wakes the users of changed directories. It renews the watches first, so that no change is missed.
func (w *watcher) flush(ctx context.Context) {
	for dir := range w.dirty {
		dir.follow(ctx)
		dir.version.Add(1)
		dir.users.Each(func(key types.NamespacedName, _ string) { w.wake(key) })
	}
	clear(w.dirty)
}

// watch watches a directory tree and its nearest existing parent, in which the tree itself can be created, deleted or
// replaced by a link.
func (w *watcher) watch(root string) error {
	above := filepath.Dir(root)
	for above != filepath.Dir(above) && !exists(above) {
		above = filepath.Dir(above)
	}
	if err := w.notify.Add(above); err != nil {
		return fmt.Errorf("watch %s: %w", above, err)
	}
	// A path that was a link may refer to another directory now.
	_ = w.notify.Remove(root)
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return w.notify.Add(filepath.Join(root, p))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
