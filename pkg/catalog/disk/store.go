package disk

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	dirCatalogs = "catalogs"
	dirBundles  = "bundles"
	dirWork     = "work"

	// DefaultLimit is how many bytes are kept.
	DefaultLimit = 2 << 30
	mode         = 0o700
)

// Store is a directory of this program's own.
type Store struct {
	dir   string
	limit int64
	// temporary says that the directory goes with the program.
	temporary bool
	// lock is held for as long as the program runs.
	lock *os.File

	// mu is held while files are put in their places, taken from there or swept.
	mu sync.Mutex
	// inUse counts who has a catalog open, by its key: its space is not free while somebody has.
	inUse map[string]int
}

// OpenDefault opens the one in the machine's, or the container's, folder for temporary files, which stays there
// when the program ends: or, where another has it, a new one for this run.
func OpenDefault() (*Store, error) {
	s, err := Open(filepath.Join(os.TempDir(), fmt.Sprintf("remit-catalog-%d", os.Getuid())), 0)
	if err != nil {
		return Open("", 0)
	}
	return s, nil
}

// Open makes the directory where it is not there yet, and empties what was being read when the program ended. An
// empty dir stands for a new one, which Close removes. A limit of zero is DefaultLimit.
func Open(dir string, limit int64) (*Store, error) {
	s := &Store{dir: dir, limit: limit, inUse: map[string]int{}}
	if limit == 0 {
		s.limit = DefaultLimit
	}
	if dir == "" {
		made, err := os.MkdirTemp("", "remit-catalog-")
		if err != nil {
			return nil, err
		}
		s.dir, s.temporary = made, true
	}
	if err := os.MkdirAll(s.dir, mode); err != nil {
		return nil, err
	}
	if err := isOurs(s.dir); err != nil {
		return nil, err
	}
	if err := s.claim(); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(s.dir, dirWork)); err != nil {
		return nil, err
	}
	for _, d := range []string{dirCatalogs, dirBundles, dirWork} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), mode); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// isOurs refuses a directory into which somebody else may have put what would be believed.
func isOurs(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("directory %s belongs to user %d, not to this program's", dir, owner.Uid)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("directory %s may be written by everybody", dir)
	}
	return nil
}

// claim keeps the directory to this program: another would empty what is being read.
func (s *Store) claim() error {
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return fmt.Errorf("directory %s is used by another program: %w", s.dir, err)
	}
	s.lock = lock
	return nil
}

// Close lets go of the directory, and removes one that was made for this run only.
func (s *Store) Close() error {
	err := s.lock.Close()
	if s.temporary {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// Key is that of an image: of its digest in its repository, and of what else decides what is read of it.
func Key(repository, digest string, more ...string) string {
	h := sha256.New()
	for _, word := range append([]string{repository, digest}, more...) {
		fmt.Fprintf(h, "%d:%s", len(word), word)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Work makes an empty directory, which remove takes away.
func (s *Store) Work() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(filepath.Join(s.dir, dirWork), "")
	if err != nil {
		return "", nil, unwritten(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// use notes that a catalog's files are open, until the contents are closed or nobody has them any more. The caller holds the lock.
func (s *Store) use(key string, contents *Contents) {
	s.inUse[key]++
	ended := false
	unuse := func(drop bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ended {
			return
		}
		ended = true
		if s.inUse[key]--; s.inUse[key] > 0 {
			return
		}
		delete(s.inUse, key)
		if drop {
			_ = s.dropSnapshot(key) // what cannot be deleted is swept some day
		}
	}
	contents.unuse = unuse
	runtime.AddCleanup(contents, func(end func(bool)) { end(false) }, unuse)
}

func (s *Store) path(dir, name string) string { return filepath.Join(s.dir, dir, name) }

// used marks a file as needed, so that others go first.
func used(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}

// Sweep deletes what was not used for longest until the rest is within the limit. A catalog that is in use stays: deleting its
// files would free nothing.
func (s *Store) Sweep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	type file struct {
		path string
		fs.FileInfo
	}
	var files []file
	total := int64(0)
	for _, dir := range []string{dirCatalogs, dirBundles} {
		entries, err := os.ReadDir(filepath.Join(s.dir, dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			total += info.Size()
			files = append(files, file{s.path(dir, e.Name()), info})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano()) })
	for _, f := range files {
		if total <= s.limit {
			break
		}
		if s.inUse[strings.TrimSuffix(strings.TrimSuffix(filepath.Base(f.path), suffixIndex), suffixContents)] > 0 {
			continue
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= f.Size()
	}
	return nil
}

// replace puts a file that was written elsewhere in its place, whole or not at all.
func replace(from *os.File, to string) error {
	if err := from.Close(); err != nil {
		return err
	}
	return os.Rename(from.Name(), to)
}

func (s *Store) temp() (*os.File, error) {
	file, err := os.CreateTemp(filepath.Join(s.dir, dirWork), "")
	if err != nil {
		return nil, unwritten(err)
	}
	return file, nil
}
