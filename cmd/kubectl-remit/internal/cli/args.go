package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/remit-olm/remit/pkg/lib/message"
)

// ExactArgs returns a function that requires exactly one argument per name, in the order given. Its errors contain the
// names.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError(cmd, fmt.Sprintf("the argument %s is missing", names[len(args)]))
		case len(args) > len(names):
			return usageError(cmd, fmt.Sprintf("unexpected argument %q", args[len(names)]))
		}
		return nil
	}
}

// NoArgs returns an error if there are arguments, for commands that accept only flags.
func NoArgs(cmd *cobra.Command, args []string) error { return ExactArgs()(cmd, args) }

// usageError returns an error that shows the usage of the command.
func usageError(cmd *cobra.Command, what string) error {
	return message.Sprintf("%s\n\nUsage:\n  %s\n\n%s --help shows examples and flags", what, cmd.UseLine(), cmd.CommandPath()).Err()
}
