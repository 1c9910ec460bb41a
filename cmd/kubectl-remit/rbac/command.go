// Package rbac is "kubectl remit rbac": it prints the least RBAC with which an account can install a
// bundle and keep it, ready to be applied. It asks no cluster.
package rbac

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Options of the command.
type Options struct {
	source.Flags
	// Namespace is that of the Subscription; "" is the account's.
	Namespace string
	// Format is yaml or json.
	Format string
	// WithAccount adds the account itself: its Namespace, the ServiceAccount and its enrollment.
	WithAccount bool
	// RemitNamespace is where Remit is installed, for the enrollment.
	RemitNamespace string
	Out            io.Writer
	ErrOut         io.Writer
}

const example = `  # What the ServiceAccount "installer" needs to install a bundle into its own namespace
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer

  # The same, and the account itself, applied at once
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer --with-account | kubectl apply -f -

  # For an operator that watches two other namespaces
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer --target-namespaces team-b,team-c

  # For an operator that watches the whole cluster
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer --install-mode AllNamespaces`

// NewCommand makes the command.
func NewCommand() *cobra.Command {
	o := Options{}
	cmd := &cobra.Command{
		Use:   "rbac BUNDLE --account NAMESPACE/NAME",
		Short: "Print the least RBAC that installing a bundle needs",
		Long: "Print the Roles, ClusterRoles and bindings with which an account can install a bundle, run it and remove it again, " +
			"and nothing beyond: a Role for each namespace concerned and a ClusterRole where something of the bundle concerns the whole cluster.\n\n" +
			"If that amounts to cluster-admin, the first line says so, and why: as a comment, or with -o json on standard error.\n\n" +
			"It needs no cluster. The names are hashes of what is granted: what is printed for another version of the bundle stands beside it.",
		Example: example,
		Args:    cli.ExactArgs("BUNDLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return o.Run(cmd.Context(), args[0])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	o.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&o.Namespace, "namespace", "n", "", "namespace of the Subscription; without it the account's")
	flags.StringVarP(&o.Format, "output", "o", formatYAML, "form of the output: yaml, json")
	flags.BoolVar(&o.WithAccount, "with-account", false, "also print the account: its Namespace, the ServiceAccount, and the Role and binding that enroll it")
	flags.StringVar(&o.RemitNamespace, "remit-namespace", names.DefaultNamespace, "namespace that Remit is installed in, for --with-account")
	complete := cobra.FixedCompletions([]string{formatYAML, formatJSON}, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("output", complete) // fails only for a flag that is not there
	return cmd
}

// Run prints the RBAC of one bundle.
func (o *Options) Run(ctx context.Context, arg string) error {
	if o.Account == "" {
		return errors.New("--account is required: the ServiceAccount that bounds the install, as NAMESPACE/NAME")
	}
	account, err := source.ParseAccount(o.Account)
	if err != nil {
		return err
	}
	namespace := o.Namespace
	if namespace == "" {
		namespace = account.Namespace
	}
	b, err := o.Load(ctx, arg)
	if err != nil {
		return err
	}
	scope, err := o.Scope(b, namespace)
	if err != nil {
		return err
	}
	report, err := preflight.Required(account, b.Bundle, scope)
	if err != nil {
		return fmt.Errorf("bundle %q: %w", arg, err)
	}
	if len(report.Refused) > 0 {
		return fmt.Errorf("bundle %q is installed by no account of an OperatorGroup's own: %s", arg, report.RefusedText())
	}
	objects, err := o.objects(account, report)
	if err != nil {
		return err
	}
	return o.print(report.ClusterAdmin(), objects)
}
