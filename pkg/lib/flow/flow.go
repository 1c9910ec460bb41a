package flow

import "context"

// Step is one phase. S is the scope that all phases of a run share.
type Step[S any] func(ctx context.Context, s S) (Outcome, error)

// Outcome says how a phase ended when it did not fail. The zero value goes on to the next phase.
type Outcome struct {
	stopped bool
	// Reason is a CamelCase word for why the run waits; "" where it is simply done.
	Reason string
	// Message says, for people, what is waited for.
	Message string
}

// Next goes on to the next phase.
func Next() Outcome { return Outcome{} }

// Done ends the run: there is nothing left to do for now.
func Done() Outcome { return Outcome{stopped: true} }

// Wait ends the run until a watch on what it waits for wakes it. It is not an error.
func Wait(reason, message string) Outcome {
	return Outcome{stopped: true, Reason: reason, Message: message}
}

// Proceed says whether the next phase may run.
func (o Outcome) Proceed() bool { return !o.stopped }

// Run calls the steps in order; the first that waits, is done or fails ends the run.
func Run[S any](ctx context.Context, s S, steps ...Step[S]) (out Outcome, err error) {
	for i := 0; i < len(steps) && err == nil && out.Proceed(); i++ {
		out, err = steps[i](ctx, s)
	}
	return out, err
}
