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

// settle is how long files must be left alone before they are read again: a catalog is copied file
// by file, and a half of it is malformed.
const settle = 250 * time.Millisecond

// watcher is a manager.Runnable that notices changes of the directories' files. A directory is
// watched from its first load on.
type watcher struct {
	dirs   []*directory
	wake   func(types.NamespacedName)
	notify *fsnotify.Watcher
	dirty  map[*directory]bool
}

// newWatcher returns nil where the machine gives no watch, because its limit of inotify instances is reached for instance. The
// directories are then compared with what was read whenever a CatalogSource that uses them is changed.
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

// Start reports changes until ctx ends.
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
			// Events were lost: anything may have changed.
			ctrl.LoggerFrom(ctx).Error(err, "Missed changes of catalog directories")
			for _, dir := range w.dirs {
				w.dirty[dir] = true
			}
			timer.Reset(settle)
		case <-timer.C:
			w.flush(ctx)
		}
	}
}

// mark notes which directories an event is about: those that it lies in, and those that lie in it.
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

// flush wakes the users of what changed. It watches first, so that no change is lost in between.
func (w *watcher) flush(ctx context.Context) {
	for dir := range w.dirty {
		dir.follow(ctx)
		dir.version.Add(1)
		for _, key := range dir.userKeys() {
			w.wake(key)
		}
	}
	clear(w.dirty)
}

// watch covers a directory tree and the nearest directory above it that exists, where the tree
// itself may appear, disappear or be exchanged by a link.
func (w *watcher) watch(root string) error {
	above := filepath.Dir(root)
	for above != filepath.Dir(above) && !exists(above) {
		above = filepath.Dir(above)
	}
	if err := w.notify.Add(above); err != nil {
		return fmt.Errorf("watch %s: %w", above, err)
	}
	// A path that was a link may now be another directory.
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
