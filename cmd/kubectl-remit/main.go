// Command kubectl-remit is the kubectl plugin "kubectl remit", the command line of Remit.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/remit-olm/remit/cmd/kubectl-remit/adopt"
	"github.com/remit-olm/remit/cmd/kubectl-remit/enroll"
	"github.com/remit-olm/remit/cmd/kubectl-remit/grant"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/plan"
	"github.com/remit-olm/remit/cmd/kubectl-remit/preflight"
	"github.com/remit-olm/remit/cmd/kubectl-remit/rbac"
	"github.com/remit-olm/remit/cmd/kubectl-remit/run"
	"github.com/remit-olm/remit/cmd/kubectl-remit/status"
	"github.com/remit-olm/remit/cmd/kubectl-remit/uninstall"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/version"
)

func main() {
	ctx, _ := interruptible()
	if code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr); code != 0 {
		os.Exit(code)
	}
}

// interruptible returns a context that the first signal cancels. Then it closes the channel: from there on, another signal ends the
// process, even if the command does not react to the context.
func interruptible() (context.Context, <-chan struct{}) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	released := make(chan struct{})
	context.AfterFunc(ctx, func() {
		stop()
		close(released)
	})
	return ctx, released
}

// execute runs the command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := printing(stdout, stderr) //nolint:contextcheck // cobra passes the context to each command
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		message.Fprintln(cmd.ErrOrStderr(), "error:", err)
	}
	return cli.ExitCode(err)
}

// printing returns the root command, which sends all output through a cli.Writer.
func printing(stdout, stderr io.Writer) *cobra.Command {
	cmd := root()
	cmd.SetOut(cli.NewWriter(stdout))
	cmd.SetErr(cli.NewWriter(stderr))
	return cmd
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "kubectl-remit",
		Short:         "Install operators, each bounded by the ServiceAccount of its OperatorGroup",
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl remit"},
	}
	cmd.AddCommand(adopt.NewCommand(), enroll.NewCommand(), enroll.NewUnenrollCommand(), grant.NewCommand(), plan.NewCommand(), preflight.NewCommand(), rbac.NewCommand(), run.NewCommand(), status.NewCommand(), uninstall.NewCommand())
	return cmd
}
