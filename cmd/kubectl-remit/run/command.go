// Package run implements "kubectl remit run", which starts a cluster with Remit on this machine and demonstrates
// an install that is bounded by an account: blocked, granted, completed.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
)

// codeFailed is the exit code of a failed demonstration.
const codeFailed = 1

// Options holds the options of the command.
type Options struct {
	// Exit makes Run return after the demonstration; otherwise the cluster stays up until the context is done.
	Exit bool
	// Bundles is a directory of bundles to install instead of the sample operator.
	Bundles string
	// WithCRDs makes Run install well-known third-party CustomResourceDefinitions.
	WithCRDs bool
	// Dir is the directory for the cluster's state; "" means a temporary directory that is removed at the end.
	Dir string
	// Timeout limits each wait during the demonstration. Remit may take at least defaultTimeout to start.
	Timeout time.Duration
	Out     io.Writer
}

const example = `  # Demonstrate a bounded install, then stay up until you press Ctrl-C
  kubectl remit run

  # Exit with status 0 or 1 afterwards
  kubectl remit run --exit

  # Install your own bundles from a directory (<package>/<version>/manifests, metadata)
  kubectl remit run --bundles ./bundles

  # The same, with kinds such as ServiceMonitor and PrometheusRule
  kubectl remit run --bundles ./bundles --with-crds`

// defaultTimeout is the default of Options.Timeout.
const defaultTimeout = 2 * time.Minute

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	o := Options{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Start a cluster with Remit on this machine and demonstrate a bounded install",
		Long: "Start etcd, the Kubernetes control plane, a simulated node and Remit on this machine (without root, on loopback only), " +
			"and install an operator: first with an account that is missing two rules, which Remit reports before it writes anything, " +
			"then with the rules granted.\n\nThe command needs Remit's other programs in its own directory. In a source tree, it builds those that are missing.",
		Example: example,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out = cmd.OutOrStdout()
			if err := Run(cmd.Context(), o); err != nil {
				return &cli.ExitError{Code: codeFailed, Err: err}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.Exit, "exit", false, "exit after the demonstration, with status 0 if it succeeded and 1 if it failed")
	flags.StringVar(&o.Bundles, "bundles", "", "directory of bundles to serve and install instead of the sample operator")
	flags.BoolVar(&o.WithCRDs, "with-crds", false, "serve well-known third-party kinds, such as ServiceMonitor, PodMonitor and PrometheusRule")
	flags.StringVar(&o.Dir, "dir", "", "directory in which to keep the cluster's state; by default, a temporary directory that is removed on exit")
	flags.DurationVar(&o.Timeout, "timeout", defaultTimeout, "timeout for each step of the demonstration")
	return cmd
}

// Run starts the cluster, runs the demonstration and, unless Options.Exit is set, waits until the context is done.
func Run(ctx context.Context, o Options) error {
	p := newProgress(o.Out)
	programs, err := findPrograms(ctx, p)
	if err != nil {
		return err
	}
	d := &demo{Options: o, progress: p, programs: programs}
	defer d.stop()
	show := d.sample
	if o.Bundles != "" {
		show = d.bundles
	}
	return d.finish(ctx, d.try(ctx, show))
}

// finish returns the result of the demonstration. If the cluster stays up, finish first waits until the context is
// done. A cluster with packages that are not installed stays up to show the reasons; for other errors, finish returns
// immediately.
func (d *demo) finish(ctx context.Context, result error) error {
	notInstalled := errors.As(result, new(notInstalledError))
	if d.Exit || result != nil && !notInstalled {
		return result
	}
	if notInstalled {
		d.progress.say("\nSome packages are not installed: %v.\nTo see what blocks a package: kubectl remit status -n demo-<package>", result)
	}
	d.follow()
	d.progress.say("\nThe cluster stays up until you press Ctrl-C.")
	select {
	case <-ctx.Done():
	case <-d.cluster.Done():
		return fmt.Errorf("the control plane exited unexpectedly; its state is in %s", d.cluster.Dir)
	}
	return result
}
