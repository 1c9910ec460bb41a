package catalogsource

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestWatcherDetectsChanges(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(t *testing.T, root string)
		change  func(t *testing.T, root string)
	}{
		{"of a file", func(t *testing.T, root string) { write(t, filepath.Join(root, "cat", "a", "f.yaml"), goodCatalog) },
			func(t *testing.T, root string) { write(t, filepath.Join(root, "cat", "a", "f.yaml"), otherCatalog) }},
		{"of a directory that appears", func(*testing.T, string) {},
			func(t *testing.T, root string) { write(t, filepath.Join(root, "cat", "a", "f.yaml"), otherCatalog) }},
		{"of a replaced link", func(t *testing.T, root string) {
			write(t, filepath.Join(root, "v1", "f.yaml"), goodCatalog)
			write(t, filepath.Join(root, "v2", "f.yaml"), otherCatalog)
			require.NoError(t, os.Symlink("v1", filepath.Join(root, "cat")))
		}, func(t *testing.T, root string) {
			require.NoError(t, os.Symlink("v2", filepath.Join(root, "new")))
			require.NoError(t, os.Rename(filepath.Join(root, "new"), filepath.Join(root, "cat")))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			tt.prepare(t, root)
			woken := make(chan types.NamespacedName, 10)
			dirs := newDirectories(map[string]string{"img": filepath.Join(root, "cat")}, nil)
			w := newWatcher(dirs, func(key types.NamespacedName) { woken <- key }, fsnotify.NewWatcher)
			require.NotNil(t, w)
			go func() { _ = w.Start(t.Context()) }()

			dir, ok := dirs.use(key("c"), "img")
			require.True(t, ok)
			load := func() content {
				seen, again := dir.load(t.Context(), key("c"), "state")
				require.Zero(t, again)
				return seen
			}
			before := load()
			require.Same(t, before.good, load().good, "unchanged files are not read again")
			tt.change(t, root)

			// Several changes can cause several wake-ups; the last one must find the new content.
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				for len(woken) > 0 {
					require.Equal(c, key("c"), <-woken)
				}
				after := load()
				require.NoError(c, after.err)
				require.Len(c, after.good.Packages["a"].Bundles, 2)
			}, time.Minute, 50*time.Millisecond)
		})
	}
}

// Catalogs are served even if the machine's limit of inotify instances or watches is reached.
func TestReadsAnUnwatchedDirectoryAgainWhenReconciled(t *testing.T) {
	for name, open := range map[string]func() (*fsnotify.Watcher, error){
		"no instance": func() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE },
		"no watch": func() (*fsnotify.Watcher, error) {
			w, err := fsnotify.NewWatcher()
			if err == nil {
				err = w.Close() // adding directories then fails
			}
			return w, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			file := filepath.Join(root, "cat", "a", "f.yaml")
			write(t, file, goodCatalog)
			dirs := newDirectories(map[string]string{"img": filepath.Join(root, "cat")}, nil)
			w := newWatcher(dirs, func(types.NamespacedName) {}, open)
			require.Equal(t, name == "no instance", w == nil)
			dir, ok := dirs.use(key("c"), "img")
			require.True(t, ok)
			load := func(state string) content {
				dir.compareAt = time.Time{}
				seen, again := dir.load(t.Context(), key("c"), state)
				require.Zero(t, again)
				return seen
			}
			before := load("first")
			require.NoError(t, before.err)
			require.Same(t, before.good, load("second").good, "unchanged files are not read again")

			write(t, file, otherCatalog)
			require.Same(t, before.good, load("second").good, "the CatalogSource has not changed")
			after := load("third")
			require.NoError(t, after.err)
			require.Len(t, after.good.Packages["a"].Bundles, 2)
			require.Same(t, after.good, load("fourth").good)

			write(t, file, goodCatalog)
			dir.compareAt = time.Now().Add(time.Hour)
			seen, again := dir.load(t.Context(), key("c"), "fifth")
			require.Same(t, after.good, seen.good, "the files are not compared again during the pause")
			require.Positive(t, again)
			require.Len(t, load("fifth").good.Packages["a"].Bundles, 1, "the change is detected after the pause")
		})
	}
}
