package kit

import "errors"

// Is reports whether an error of a type is in the chain.
func Is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
