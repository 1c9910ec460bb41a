// Package preflight is "kubectl remit preflight": it says, before anything is installed, all that an
// account lacks for it, with the engine by which the controllers say it of an InstallPlan.
package preflight

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
)

// Options of the command.
type Options struct {
	source.Flags
	// Namespace is that of the Subscription; "" is the account's.
	Namespace string
	// RBACDir holds manifests to ask instead of a cluster.
	RBACDir string
	// Format is that of the output.
	Format  cli.Format
	Cluster *cli.Cluster
	Out     io.Writer
	ErrOut  io.Writer
}

const example = `  # May the account of this namespace's OperatorGroup install the bundle of a directory?
  kubectl remit preflight ./my-operator/1.2.3 -n team-a

  # Without a cluster: the account's rights are in a folder of manifests
  kubectl remit preflight ./my-operator/1.2.3 --account team-a/installer --rbac-dir ./rbac

  # What does the plan of a Subscription lack? Apply the RBAC that grants it
  kubectl remit preflight subscription/my-operator -n team-a
  kubectl remit preflight subscription/my-operator -n team-a | sed -n '/^---/,$p' | kubectl apply -f -

  # Would another account do for an InstallPlan?
  kubectl remit preflight installplan/install-abcde -n team-a --account team-a/other -o yaml`

// NewCommand makes the command.
func NewCommand() *cobra.Command {
	o := Options{Cluster: cli.NewCluster()}
	cmd := &cobra.Command{
		Use:   "preflight BUNDLE | subscription/NAME | installplan/NAME",
		Short: "Say what an account lacks for an install",
		Long: "Say all that an account lacks for installing a bundle, or for the InstallPlan that exists, and print the RBAC that grants it. " +
			"The account and its namespaces are those of the namespace's OperatorGroup, unless flags say otherwise.\n\n" +
			"Rights are read from the cluster as the user who asks. One who may not read RBAC is answered by the API server's access reviews, " +
			"if allowed to ask for those. With --rbac-dir no cluster is asked.\n\n" +
			"The exit status is 0 where nothing is missing, 1 where something is, and 2 where that could not be found out.",
		Example: example,
		Args:    cli.ExactArgs("BUNDLE | subscription/NAME | installplan/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if cmd.Flags().Changed("namespace") {
				var err error
				if o.Namespace, err = o.Cluster.Namespace(); err != nil {
					return err
				}
			}
			return o.Run(cmd.Context(), args[0])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"subscription/", "installplan/"}, cobra.ShellCompDirectiveDefault
		},
	}
	o.AddFlags(cmd)
	o.Format.AddFlag(cmd)
	o.Cluster.AddFlags(cmd)
	cmd.Flags().StringVar(&o.RBACDir, "rbac-dir", "", "ask the RBAC manifests below this folder instead of a cluster")
	_ = cmd.MarkFlagDirname("rbac-dir") // fails only for a flag that is not there
	return cmd
}

// Run answers for one bundle or object.
func (o *Options) Run(ctx context.Context, arg string) error {
	a, err := o.about(ctx, arg)
	if err != nil {
		return err
	}
	r, err := a.evaluate(ctx)
	if err != nil {
		return err
	}
	if err := r.print(o.Out, o.ErrOut, o.Format); err != nil {
		return err
	}
	return r.err()
}
