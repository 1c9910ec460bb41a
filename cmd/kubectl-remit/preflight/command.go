// Package preflight implements "kubectl remit preflight", which lists, before anything is installed, all permissions
// that an account, or the identity of a ClusterExtension, is missing. It uses the same engine as the controllers.
package preflight

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
)

// Options holds the options of the command.
type Options struct {
	source.Flags
	// Namespace is the namespace of the Subscription; "" means the account's.
	Namespace string
	// RBACDir contains manifests to check instead of a cluster.
	RBACDir string
	// Bundles are bundle directories or images to compare an InstallPlan with, and to read if it does not contain their manifests.
	// loaded contains those that were read.
	Bundles []string
	loaded  []*source.Bundle
	Format  cli.Format
	Cluster *cli.Cluster
	Out     io.Writer
	ErrOut  io.Writer
}

const example = `  # Is the account of this namespace's OperatorGroup allowed to install the bundle in a directory?
  kubectl remit preflight ./my-operator/1.2.3 -n team-a

  # Without a cluster: read the account's permissions from a directory of manifests
  kubectl remit preflight ./my-operator/1.2.3 --account team-a/installer --rbac-dir ./rbac

  # Apply the RBAC that grants what is missing
  kubectl remit preflight ./my-operator/1.2.3 -n team-a -o yaml | kubectl apply -f -

  # What is missing for the plan of a Subscription? To grant it: kubectl remit grant subscription/my-operator -n team-a
  kubectl remit preflight subscription/my-operator -n team-a

  # Is another account allowed to execute an InstallPlan? Print the purpose of each rule
  kubectl remit preflight installplan/install-abcde -n team-a --account team-a/other -o report

  # What is missing for a ClusterExtension?
  kubectl remit preflight clusterextension my-extension`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	o := Options{Cluster: cli.NewCluster()}
	cmd := &cobra.Command{
		Use:   "preflight BUNDLE | subscription/NAME | installplan/NAME",
		Short: "List the permissions that an account is missing for an install",
		Long: "List all permissions that an account is missing for installing a bundle, or for executing an existing InstallPlan. " +
			"By default, the account and the target namespaces are those of the namespace's OperatorGroup.\n\n" +
			"The command reads RBAC from the cluster with your credentials. If you are not allowed to read RBAC, it sends access reviews to the API server instead, " +
			"if you are allowed to create them. With --rbac-dir, it does not use a cluster.\n\n" +
			"For a Subscription or an InstallPlan, notes report for each bundle whether its CatalogSource, or --bundle, has the same content as the InstallPlan. " +
			"For a Subscription, the command examines the InstallPlan whose pins name the Subscription, not the one that the Subscription's status names: other users may be able to write the status.\n\n" +
			"With -o yaml or -o json, standard output consists only of the objects that grant what is missing, and everything else is printed to standard error. " +
			"With -o report, the output describes every rule and its purpose, for programs.\n\n" +
			"The exit status is 0 if nothing is missing, 1 if something is missing, and 2 if the check could not be completed.",
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
	o.Format.AddFlag(cmd, formatReport)
	o.Cluster.AddFlags(cmd)
	cmd.Flags().StringVar(&o.RBACDir, "rbac-dir", "", "check the RBAC manifests below this directory instead of a cluster")
	source.AddBundleFlag(cmd, &o.Bundles)
	_ = cmd.MarkFlagDirname("rbac-dir") // fails only for an undefined flag
	cmd.AddCommand(newExtensionCommand())
	return cmd
}

// Run checks one bundle or object.
func (o *Options) Run(ctx context.Context, arg string) error {
	i, err := o.input(ctx, arg)
	if err != nil {
		return err
	}
	r, err := i.evaluate(ctx)
	if err != nil {
		return err
	}
	if err := r.print(o.Out, o.ErrOut, o.Format); err != nil {
		return err
	}
	return r.err()
}
