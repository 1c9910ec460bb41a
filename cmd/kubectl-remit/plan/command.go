package plan

import (
	"context"
	"io"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// Options holds the options of "plan show".
type Options struct {
	// Bundles are bundle directories or images that the InstallPlan must match, and that are read if it does not contain their
	// manifests.
	Bundles []string
	// PlainHTTP allows a registry without TLS.
	PlainHTTP bool
	Format    cli.Format
	Cluster   *cli.Cluster
	Out       io.Writer
	ErrOut    io.Writer
}

const example = `  # What would this plan install? Who gets which permissions?
  kubectl remit plan show install-abcde -n team-a

  # All manifests, permissions first
  kubectl remit plan show install-abcde -n team-a -o yaml

  # A plan that is too large to contain the manifests of its bundle: read the bundle, whose digest must match the plan
  kubectl remit plan show install-abcde -n team-a --bundle registry.example.com/my-operator-bundle:v1.2.3`

// NewCommand returns the command "plan" with its subcommand.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what an InstallPlan writes",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newShowCommand())
	return cmd
}

func newShowCommand() *cobra.Command {
	o := &Options{Cluster: cli.NewCluster()}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show what an InstallPlan writes, permissions first",
		Long: "Show what an InstallPlan writes: first the permissions that it grants, then what extends the API server " +
			"(CustomResourceDefinitions, webhooks and APIServices), the Deployments, and all other objects. The output ends with what the plan reports " +
			"as missing, and with the command that approves the plan if it is waiting for approval.\n\n" +
			"The objects are rendered from the content of the bundles that the plan contains. The plan's name commits to that content, so modified " +
			"content is rejected. The output reports for each bundle whether its CatalogSource, if it has a ConfigMap, or --bundle has the same content. The target namespaces are those that the OperatorGroup currently selects.\n\n" +
			"The exit status is 0 if nothing is missing, 1 if the plan reports something missing, and 2 if the plan cannot be shown.",
		Example: example,
		Args:    cli.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return o.Run(cmd.Context(), args[0])
		},
		ValidArgsFunction: o.Cluster.CompleteNames(func() client.ObjectList { return &operatorsv1alpha1.InstallPlanList{} }),
	}
	o.Format.AddFlag(cmd)
	o.Cluster.AddFlags(cmd)
	flags := cmd.Flags()
	source.AddBundleFlag(cmd, &o.Bundles)
	flags.BoolVar(&o.PlainHTTP, "plain-http", false, "allow a registry without TLS; not required for a registry on this machine")
	return cmd
}

// Run shows one plan. It returns cli.Missing if the plan's status reports anything missing.
func (o *Options) Run(ctx context.Context, name string) error {
	namespace, err := o.Cluster.Namespace()
	if err != nil {
		return err
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return err
	}
	var given []*source.Bundle
	for _, arg := range o.Bundles {
		b, err := (&source.Flags{PlainHTTP: o.PlainHTTP}).Load(ctx, arg)
		if err != nil {
			return err
		}
		given = append(given, b)
	}
	plan := &operatorsv1alpha1.InstallPlan{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, plan); err != nil {
		return err
	}
	v, err := gather(ctx, c, plan, given)
	if err != nil {
		return err
	}
	for _, note := range v.notes {
		message.Fprintln(o.ErrOut, "note:", note)
	}
	if o.Format == cli.Text {
		err = v.text(o.Out)
	} else {
		err = o.Format.EncodeObjects(o.Out, v.objects())
	}
	if err == nil && len(v.missing) > 0 {
		return cli.Missing()
	}
	return err
}
