package kit

import "errors"

// Is reports whether err or an error that it wraps has type E.
func Is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
