// Package silence checks that an install which waits sends no requests. Its test waits for minutes, and it is not part of `make test`.
package silence
