// Package silence checks that an install sends no requests while it waits. Its test takes minutes, so `make test` does
// not run it.
package silence
