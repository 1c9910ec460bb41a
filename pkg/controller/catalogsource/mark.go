package catalogsource

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
)

// mark identifies the state of a directory tree by the names, sizes and times of its files, without reading them.
type mark [sha256.Size]byte

// maxMarked bounds the files of a mark. Changes of other files are detected only if one of these changes, too.
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
