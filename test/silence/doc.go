// Package silence checks that Remit sends no requests for an install while the install waits. The test takes minutes,
// so `make test` does not run it.
package silence
