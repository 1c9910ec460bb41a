// Package rbac implements "kubectl remit rbac", which prints the minimal RBAC that an account needs to install and
// maintain a bundle, or that the identity of a ClusterExtension needs, as manifests to apply. It uses a cluster only to
// read a ClusterExtension and ClusterCatalogs.
package rbac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Options holds the options of the command.
type Options struct {
	source.Flags
	// Namespace is the namespace of the Subscription; "" means the account's.
	Namespace string
	// Format is yaml or json.
	Format string
	// WithAccount makes the command also print the account: its Namespace, the ServiceAccount and its enrollment.
	WithAccount bool
	// Optional lists the optional features whose permissions are printed as well.
	Optional []string
	// RemitNamespace is the namespace of Remit's programs, which the enrollment refers to.
	RemitNamespace string
	Out            io.Writer
	ErrOut         io.Writer
}

const example = `  # What the ServiceAccount "installer" needs to install a bundle into its own namespace
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer

  # Apply the same RBAC, including the account
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer --with-account | kubectl apply -f -

  # For an operator that watches two other namespaces
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer --target-namespaces team-b,team-c

  # For an operator that watches the whole cluster
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer --install-mode AllNamespaces

  # Including what optional features need: the operator's OperatorCondition, copies of its ClusterServiceVersion, and so on
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer --optional
  kubectl remit rbac ./my-operator/1.2.3 --account team-a/installer --optional=conditions,copies

  # What a ClusterExtension needs
  kubectl remit rbac clusterextension my-extension`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	o := Options{}
	cmd := &cobra.Command{
		Use:   "rbac BUNDLE --account NAMESPACE/NAME",
		Short: "Print the minimal RBAC that a bundle needs",
		Long: "Print the Roles, ClusterRoles and bindings that an account needs to install, run and remove a bundle, " +
			"and nothing more: a Role for each namespace, and a ClusterRole if something in the bundle is cluster-scoped.\n\n" +
			"If the permissions amount to cluster-admin, the command explains why: in a comment in the first line or, with -o json, on standard error.\n\n" +
			"The command needs no cluster. The names of the objects contain hashes of the rules, so applying the output for another version of the bundle does not overwrite existing objects.",
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
	flags.StringVarP(&o.Namespace, "namespace", "n", "", "namespace of the Subscription; defaults to the namespace of the account")
	flags.StringVarP(&o.Format, "output", "o", formatYAML, "output format: yaml, json")
	flags.BoolVar(&o.WithAccount, "with-account", false, "also print the account: its Namespace, the ServiceAccount, and the Role and binding that enroll it")
	flags.StringVar(&o.RemitNamespace, "remit-namespace", names.DefaultNamespace, "namespace where Remit is installed, for --with-account")
	o.addOptional(cmd)
	completeOutput(cmd)
	cmd.AddCommand(newExtensionCommand())
	return cmd
}

func completeOutput(cmd *cobra.Command) {
	complete := cobra.FixedCompletions([]string{formatYAML, formatJSON}, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("output", complete) // fails only for an undefined flag
}

// Run prints the RBAC of one bundle.
func (o *Options) Run(ctx context.Context, arg string) error {
	if o.Account == "" {
		return errors.New("--account is required: the ServiceAccount whose permissions limit the install, as NAMESPACE/NAME")
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
	for _, warning := range b.Warnings {
		message.Fprintln(o.ErrOut, "warning:", warning)
	}
	scope, err := o.Scope(b, namespace)
	if err != nil {
		return err
	}
	optional, err := o.optional(b.Bundle, scope)
	if err != nil {
		return err
	}
	report, err := preflight.Required(scoped.ServiceAccountIdentity(account), b.Bundle, scope, optional...)
	if err != nil {
		return fmt.Errorf("bundle %q: %w", arg, err)
	}
	if len(report.Refused) > 0 {
		return fmt.Errorf("bundle %q can only be installed by the installation's default account: %s", arg, report.RefusedText())
	}
	objects, err := o.objects(account, report)
	if err != nil {
		return err
	}
	return o.print(cmp.Or(report.ClusterAdmin(), report.Escalation()), objects)
}
