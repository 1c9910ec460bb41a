package component

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// Running is a started component.
type Running struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Done returns a channel that is closed when the component has ended, unexpectedly or through Stop.
func (r *Running) Done() <-chan struct{} { return r.done }

// Err returns why the component ended; it is valid once Done is closed.
func (r *Running) Err() error { return fmt.Errorf("%s ended: %w", r.name, r.err) }

// Stop stops the component and waits until it has ended or the context is done.
func (r *Running) Stop(ctx context.Context) {
	r.cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// start runs the function with a new context that keeps the parent's values but not its cancellation, because the
// caller determines the order in which components stop when a signal arrives.
func start(ctx context.Context, name string, run func(context.Context) error) *Running {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Running{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = run(ctx)
	}()
	return r
}

// parse sets flags from command-line arguments.
func parse(name string, sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	if err := all.Parse(args); err != nil {
		return fmt.Errorf("%s flags: %w", name, err)
	}
	return nil
}
