package cli

import "errors"

// Exit codes of every subcommand but run. 0 also means that nothing is missing.
const (
	// CodeMissing: the question was answered, and something is missing.
	CodeMissing = 1
	// CodeError: the question could not be asked or answered; wrong usage counts here.
	CodeError = 2
)

// ExitError ends the program with a code of its own. Err may be nil where all is said already.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error; it is "" where Err is nil.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap implements errors.Unwrap.
func (e *ExitError) Unwrap() error { return e.Err }

// Missing ends a command that has printed what is missing.
func Missing() error { return &ExitError{Code: CodeMissing} }

// ExitCode is the status with which an error ends the program: CodeError unless an ExitError says
// otherwise.
func ExitCode(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	}
	return CodeError
}
