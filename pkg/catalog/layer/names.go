package layer

import (
	"errors"
	"syscall"
)

// isNameError reports whether the file system refused a name rather than the write.
func isNameError(err error) bool {
	for _, e := range []error{syscall.ENAMETOOLONG, syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.EINVAL, syscall.ELOOP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
