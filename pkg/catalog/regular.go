package catalog

import (
	"fmt"
	"io/fs"
)

// CheckRegular returns an error if a file is neither a regular file nor a directory, once its symbolic links have been followed:
// opening a pipe, a socket or a device could block forever.
func CheckRegular(fsys fs.FS, name string) error {
	info, err := fs.Stat(fsys, name)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is not a regular file", name)
	}
	return err
}
