package cli

import "errors"

// Exit codes of every subcommand except run. 0 means that the command succeeded and that nothing is missing.
const (
	// CodeMissing means that the check is complete and something is missing.
	CodeMissing = 1
	// CodeError means that the check could not be completed, or that the command line is invalid.
	CodeError = 2
)

// ExitError ends the program with the given code. Err may be nil if there is nothing more to print.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error. It returns "" if Err is nil.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap implements errors.Unwrap.
func (e *ExitError) Unwrap() error { return e.Err }

// Missing returns an ExitError with CodeMissing and no text, for commands that have already printed what is missing.
func Missing() error { return &ExitError{Code: CodeMissing} }

// ExitCode returns the exit code for an error: 0 for nil, the code of an ExitError, and CodeError for other errors.
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
