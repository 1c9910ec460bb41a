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

	// DefaultLimit is the default size limit, in bytes.
	DefaultLimit = 2 << 30
	// block is the least space that a file takes, in bytes: a bundle can have a few bytes. maxFiles bounds the number of files, because
	// Sweep looks at each of them whenever one is stored.
	block, maxFiles = 4 << 10, 20_000
	mode            = 0o700
)

// Store is a directory that only this program uses.
type Store struct {
	dir   string
	limit int64
	// temporary means that the directory is removed when the store is closed.
	temporary bool
	// lock is an exclusive lock on the directory while the program runs.
	lock *os.File

	// mu protects moving files into place, removing them and sweeping.
	mu sync.Mutex
	// inUse counts the users of each catalog, by key. Deleting files that are in use would not free their space.
	inUse map[string]int
}

// OpenDefault opens a store in the system's directory for temporary files. The store persists across restarts. If it
// cannot be opened, for example because another program uses it, OpenDefault creates a store for this run only.
func OpenDefault() (*Store, error) {
	s, err := Open(filepath.Join(os.TempDir(), fmt.Sprintf("remit-catalog-%d", os.Getuid())), 0)
	if err != nil {
		return Open("", 0)
	}
	return s, nil
}

// Open creates the directory if needed and deletes the temporary files of an earlier run. If dir is empty, it creates a
// new directory, which Close removes. A limit of zero means DefaultLimit.
func Open(dir string, limit int64) (*Store, error) {
	s := &Store{dir: dir, limit: cmp.Or(limit, DefaultLimit), inUse: map[string]int{}}
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
	if err := checkOwner(s.dir); err != nil {
		return nil, err
	}
	if err := s.claim(); err != nil {
		return nil, err
	}
	// Files that cannot be removed take space, but the store works without it.
	_ = os.RemoveAll(filepath.Join(s.dir, dirWork))
	for _, d := range []string{dirCatalogs, dirBundles, dirWork} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), mode); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// checkOwner returns an error for a directory in which another user could have created files.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("directory %s is owned by user %d, but must be owned by user %d, which runs this program", dir, owner.Uid, os.Getuid())
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("directory %s is world-writable", dir)
	}
	return nil
}

// claim locks the directory, so that no other program deletes this program's temporary files. It returns an error if
// another program has locked the directory.
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

// Close releases the directory, and removes it if it is temporary.
func (s *Store) Close() error {
	err := s.lock.Close()
	if s.temporary {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// Key returns the key of an image: a hash of its repository, its digest, and everything else that affects the result of
// reading it.
func Key(repository, digest string, more ...string) string {
	h := sha256.New()
	for _, word := range append([]string{repository, digest}, more...) {
		fmt.Fprintf(h, "%d:%s", len(word), word)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Work creates an empty temporary directory. The caller must call remove to delete it.
func (s *Store) Work() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(filepath.Join(s.dir, dirWork), "")
	if err != nil {
		return "", nil, WriteError(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// use marks a catalog's files as used until the contents are closed or garbage collected. The caller must hold mu.
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
			_ = s.dropSnapshot(key) // if this fails, Sweep deletes the files later
		}
	}
	contents.unuse = unuse
	runtime.AddCleanup(contents, func(end func(bool)) { end(false) }, unuse)
}

func (s *Store) path(dir, name string) string { return filepath.Join(s.dir, dir, name) }

// used updates a file's modification time, so that Sweep deletes other files first.
func used(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}

// Sweep deletes the least recently used files until their total space and number are within the limits. It skips catalogs in use, because
// deleting their files would not free space.
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
			total += spaceOf(info)
			files = append(files, file{s.path(dir, e.Name()), info})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano()) })
	left := len(files)
	for _, f := range files {
		if total <= s.limit && left <= maxFiles {
			break
		}
		if key, _, _ := strings.Cut(filepath.Base(f.path), "."); s.inUse[key] > 0 {
			continue
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= spaceOf(f)
		left--
	}
	return nil
}

// spaceOf returns the space of a file in whole blocks.
func spaceOf(file fs.FileInfo) int64 { return (file.Size() + block - 1) / block * block }

// put writes a temporary file and moves it into place. It may delete other files to make space.
func (s *Store) put(write, place func(*os.File) error) error {
	file, err := s.temp()
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // fails if the file was moved into place
	if err = write(file); err == nil {
		err = place(file)
	}
	if err != nil {
		_ = file.Close()
		return WriteError(err)
	}
	return s.Sweep()
}

// replace moves a completely written file into place atomically.
func replace(from *os.File, to string) error {
	if err := from.Close(); err != nil {
		return err
	}
	return os.Rename(from.Name(), to)
}

func (s *Store) temp() (*os.File, error) {
	file, err := os.CreateTemp(filepath.Join(s.dir, dirWork), "")
	if err != nil {
		return nil, WriteError(err)
	}
	return file, nil
}
