// Package run is "kubectl remit run": it starts a whole cluster with Remit on it on this machine and
// shows its main job, an install that is bounded by an account, blocked, granted and carried out.
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

// codeFailed is the exit code of a demonstration that did not go well.
const codeFailed = 1

// Options of the command.
type Options struct {
	// Exit ends after the demonstration; otherwise the cluster stays up until the context ends.
	Exit bool
	// Bundles is a directory of bundles to install instead of the sample operator.
	Bundles string
	// WithCRDs installs the CustomResourceDefinitions of well-known third parties.
	WithCRDs bool
	// Dir keeps the cluster's state; empty is a temporary directory that is removed at the end.
	Dir string
	// Timeout bounds each wait of the demonstration.
	Timeout time.Duration
	Out     io.Writer
}

const example = `  # Show a bounded install, then stay up until Ctrl-C
  kubectl remit run

  # End with status 0 or 1 after it
  kubectl remit run --exit

  # Install from a folder of your own bundles (<package>/<version>/manifests, metadata)
  kubectl remit run --bundles ./bundles

  # The same where ServiceMonitor, PrometheusRule and the like are served
  kubectl remit run --bundles ./bundles --with-crds`

// NewCommand makes the command.
func NewCommand() *cobra.Command {
	o := Options{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Start a cluster with Remit on this machine and show a bounded install",
		Long: "Start etcd, the Kubernetes control plane, a stand-in for a node and Remit on this machine (no root, loopback only), " +
			"and install an operator: first with an account that lacks two rules, which Remit reports before it writes anything, " +
			"then with the rules granted.\n\nIt needs the programs of a source tree next to it; in one, it builds those that are missing.",
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
	flags.BoolVar(&o.Exit, "exit", false, "end after the demonstration, with status 0 if it went well and 1 if not")
	flags.StringVar(&o.Bundles, "bundles", "", "directory of bundles to serve and install instead of the sample operator")
	flags.BoolVar(&o.WithCRDs, "with-crds", false, "serve well-known third-party kinds, such as ServiceMonitor, PodMonitor and PrometheusRule")
	flags.StringVar(&o.Dir, "dir", "", "directory for the cluster's state, which is kept; empty: a temporary one")
	flags.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long each step of the demonstration may take")
	return cmd
}

// Run starts everything, shows the demonstration and, unless told to exit, waits for the context's end.
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

// finish returns the result of the demonstration. If the cluster is to stay up, it first waits for the context's end: packages
// that are not installed leave a cluster that shows why, other errors end it at once.
func (d *demo) finish(ctx context.Context, result error) error {
	notInstalled := errors.As(result, new(notInstalledError))
	if d.Exit || result != nil && !notInstalled {
		return result
	}
	if notInstalled {
		d.progress.say("\nSome packages are not installed: %v.\nkubectl remit status -n demo-<package> shows what blocks one.", result)
	}
	d.follow()
	d.progress.say("\nThe cluster stays up until Ctrl-C.")
	select {
	case <-ctx.Done():
	case <-d.cluster.Done():
		return fmt.Errorf("the control plane ended unexpectedly: see %s", d.cluster.Dir)
	}
	return result
}
