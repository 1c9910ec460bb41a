//go:build !linux

package existing

import "errors"

// limit fails: the controllers run on Linux.
func limit(uint64) error { return errors.New("not supported") }
