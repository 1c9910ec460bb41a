package layer

import (
	"errors"
	"slices"
	"syscall"
)

// isNameError reports whether the file system refused a name rather than the write.
func isNameError(err error) bool {
	var is syscall.Errno
	return errors.As(err, &is) &&
		slices.Contains([]syscall.Errno{syscall.ENAMETOOLONG, syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.EINVAL, syscall.ELOOP}, is)
}
