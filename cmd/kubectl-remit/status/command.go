package status

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// Options holds the options of the command.
type Options struct {
	// Scope selects the namespaces. An account is enrolled if the programs in RemitNamespace are allowed to request its
	// tokens.
	cli.Scope
	Format  cli.Format
	Cluster *cli.Cluster
	Out     io.Writer
	ErrOut  io.Writer
}

const example = `  # The OperatorGroup of a namespace: its account, what is installed, what is blocked and why
  kubectl remit status -n team-a

  # All namespaces, including permissions that no ClusterExtension uses
  kubectl remit status -A

  # Which permissions of the accounts does no install need?
  kubectl remit status -A -o json | jq '.operatorGroups[] | {namespace, unneeded}'`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	o := Options{Cluster: cli.NewCluster()}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show accounts, installs, what is blocked, and permissions that no install needs",
		Long: "Show, for each OperatorGroup, the ServiceAccount that bounds its installs and whether Remit can use it, what is installed, " +
			"what is blocked and why, and which permissions of the account no install needs. Permissions that the account has through a group are " +
			"shared with others and listed separately.\n\n" +
			"For each ClusterExtension, show its identity and whether Remit can use it, the installed version, and what is blocked and why. " +
			"Also show the grants and enrollments that no ClusterExtension uses, such as those that remain after a ClusterExtension was deleted, " +
			"and the bindings of operators whose ClusterServiceVersion or ClusterExtension was deleted. " +
			"With a namespace, this covers the ClusterExtensions with this spec.namespace, and RBAC in the namespace. With -A, it covers the whole cluster.\n\n" +
			"The command reads the cluster with your credentials. It lists what you are not allowed to read and reports the rest.\n\n" +
			"The exit status is 0 if nothing is blocked, 1 if something is blocked or not running yet, and 2 if the status could not be determined.",
		Example: example,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := o.Validate(cmd); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.Format.AddFlag(cmd)
	o.Cluster.AddFlags(cmd)
	o.Scope.AddFlags(cmd, "report on all namespaces")
	return cmd
}

// Run prints the report.
func (o *Options) Run(ctx context.Context) error {
	c, namespace, err := o.Open(o.Cluster, o.ErrOut)
	if err != nil {
		return err
	}
	w, err := gather(ctx, c, namespace)
	if err != nil {
		return err
	}
	report := newReport(ctx, w, o.RemitNamespace)
	if err := w.fillDeleted(ctx, c, report); err != nil {
		return err
	}
	if err := o.print(report, namespace); err != nil {
		return err
	}
	if report.blocked() {
		return cli.Missing()
	}
	return nil
}

func (o *Options) print(r *Report, namespace string) error {
	if o.Format != cli.Text {
		return o.Format.Encode(o.Out, r)
	}
	for _, note := range r.Notes {
		message.Fprintln(o.ErrOut, "note:", note)
	}
	if len(r.OperatorGroups)+len(r.ClusterExtensions)+len(r.Dangling)+len(r.Leftovers) == 0 {
		where := "any namespace"
		if namespace != metav1.NamespaceAll {
			where = fmt.Sprintf("namespace %q", namespace)
		}
		message.Fprintf(o.ErrOut, "No OperatorGroups, Subscriptions or ClusterExtensions found in %s.\n", where)
		return nil
	}
	return r.text(o.Out)
}
