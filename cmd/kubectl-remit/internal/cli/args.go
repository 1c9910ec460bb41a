package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// ExactArgs requires the arguments that a command's Use names, in their order.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return misused(cmd, fmt.Sprintf("the argument %s is missing", names[len(args)]))
		case len(args) > len(names):
			return misused(cmd, fmt.Sprintf("unexpected argument %q", args[len(names)]))
		}
		return nil
	}
}

// NoArgs is for commands that take flags only.
func NoArgs(cmd *cobra.Command, args []string) error { return ExactArgs()(cmd, args) }

// misused is an error with how the command is used.
func misused(cmd *cobra.Command, what string) error {
	return fmt.Errorf("%s\n\nUsage:\n  %s\n\n%s --help shows examples and flags", what, cmd.UseLine(), cmd.CommandPath())
}
