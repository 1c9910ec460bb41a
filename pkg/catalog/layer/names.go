package layer

import (
	"errors"
	"syscall"
)

// isNameError says whether the disk refused a name, not the write.
func isNameError(err error) bool {
	for _, e := range []error{syscall.ENAMETOOLONG, syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.EINVAL, syscall.ELOOP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
