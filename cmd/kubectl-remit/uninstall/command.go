package uninstall

import (
	"context"
	"fmt"
	"io"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// defaultTimeout is the default of --timeout.
const defaultTimeout = 5 * time.Minute

// Options holds the options of the command.
type Options struct {
	// CRDs also deletes the CustomResourceDefinitions that were created for the operator.
	CRDs bool
	// CustomResources first deletes all objects of these CustomResourceDefinitions, in all namespaces, while the operator is still
	// running.
	CustomResources bool
	// DryRun only reports what would be deleted.
	DryRun bool
	// Timeout is the maximum time to wait for objects to be removed.
	Timeout time.Duration
	Cluster *cli.Cluster
	Out     io.Writer
	ErrOut  io.Writer
}

const example = `  # What would be deleted?
  kubectl remit uninstall my-operator -n team-a --dry-run

  # Delete the Subscription and the operator, and keep the CustomResourceDefinitions with all of their objects
  kubectl remit uninstall my-operator -n team-a

  # Also delete the CustomResourceDefinitions; refused while objects of these kinds exist
  kubectl remit uninstall my-operator -n team-a --crds`

// NewCommand returns the command "uninstall".
func NewCommand() *cobra.Command {
	o := &Options{Cluster: cli.NewCluster()}
	cmd := &cobra.Command{
		Use:   "uninstall SUBSCRIPTION",
		Short: "Delete an operator and report what remains",
		Long: "Delete a Subscription and the ClusterServiceVersions of its package in the namespace, wait until Remit has removed the objects that it created " +
			"for them, and report what remains. CustomResourceDefinitions are kept, because deleting one deletes all of its objects. With --crds, those that were " +
			"created for this operator are deleted too. This is refused, before anything is deleted, if objects of their kinds exist or if another " +
			"ClusterServiceVersion needs them.\n\n" +
			"The command uses your credentials to delete these objects; Remit removes the operator's objects as the account of the OperatorGroup. With --crds, you need permission to list " +
			"ClusterServiceVersions and the kinds' objects in all namespaces.\n\n" +
			"The exit status is 0 if everything was removed, 1 if something remains or the command was refused, and 2 on any other failure.",
		Example: example,
		Args:    cli.ExactArgs("SUBSCRIPTION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return o.Run(cmd.Context(), args[0])
		},
		ValidArgsFunction: o.Cluster.CompleteNames(func() client.ObjectList { return &operatorsv1alpha1.SubscriptionList{} }),
	}
	o.Cluster.AddFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.CRDs, "crds", false, "also delete the CustomResourceDefinitions that were created for this operator")
	flags.BoolVar(&o.CustomResources, "delete-custom-resources", false, "with --crds, first delete all objects of these CustomResourceDefinitions, in all namespaces, while the operator is still running")
	flags.BoolVar(&o.DryRun, "dry-run", false, "only print what would be deleted")
	flags.DurationVar(&o.Timeout, "timeout", defaultTimeout, "maximum time to wait for objects to be removed")
	return cmd
}

// Run uninstalls the operator of one Subscription.
func (o *Options) Run(ctx context.Context, name string) error {
	if o.CustomResources && !o.CRDs {
		return fmt.Errorf("--delete-custom-resources requires --crds")
	}
	namespace, err := o.Cluster.Namespace()
	if err != nil {
		return err
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return err
	}
	i, err := gather(ctx, c, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	if o.CRDs {
		if err := i.gatherCRDs(ctx, o.CustomResources); err != nil {
			return err
		}
	}
	for _, note := range i.notes {
		message.Fprintln(o.ErrOut, "note:", note)
	}
	if len(i.refusals) > 0 {
		for _, why := range i.refusals {
			message.Fprintln(o.ErrOut, "refused:", why)
		}
		return cli.Missing()
	}
	return i.remove(ctx, o)
}
