package kit

import "errors"

// Is reports whether the chain of err contains an error of type E.
func Is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
