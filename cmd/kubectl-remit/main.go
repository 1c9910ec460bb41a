// Command kubectl-remit is the kubectl plugin "kubectl remit": what people do with Remit from a
// terminal.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/remit-olm/remit/cmd/kubectl-remit/enroll"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/preflight"
	"github.com/remit-olm/remit/cmd/kubectl-remit/rbac"
	"github.com/remit-olm/remit/cmd/kubectl-remit/run"
	"github.com/remit-olm/remit/cmd/kubectl-remit/status"
	"github.com/remit-olm/remit/pkg/lib/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, "error:", text)
		}
		os.Exit(cli.ExitCode(err))
	}
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
	cmd.AddCommand(enroll.NewCommand(), enroll.NewUnenrollCommand(), preflight.NewCommand(), rbac.NewCommand(), run.NewCommand(), status.NewCommand())
	return cmd
}
