package flow

import "context"

// Step is one phase. S is the scope that all phases share.
type Step[S any] func(ctx context.Context, s S) (Outcome, error)

// Outcome is the result of a phase that did not fail. The zero value continues with the next phase.
type Outcome struct {
	stopped bool
	// Reason is a CamelCase reason for waiting; "" if the run is done.
	Reason string
	// Message describes for users what the run waits for.
	Message string
}

// Next continues with the next phase.
func Next() Outcome { return Outcome{} }

// Done ends the run: there is nothing left to do for now.
func Done() Outcome { return Outcome{stopped: true} }

// Wait ends the run until a watch wakes it. It is not an error.
func Wait(reason, message string) Outcome {
	return Outcome{stopped: true, Reason: reason, Message: message}
}

// Proceed reports whether the next phase should run.
func (o Outcome) Proceed() bool { return !o.stopped }

// Run calls the steps in order, until one waits, is done or fails.
func Run[S any](ctx context.Context, s S, steps ...Step[S]) (out Outcome, err error) {
	for i := 0; i < len(steps) && err == nil && out.Proceed(); i++ {
		out, err = steps[i](ctx, s)
	}
	return out, err
}
