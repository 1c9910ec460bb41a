package rbac

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/extension"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// extensionOptions holds the options of the "rbac clusterextension" command.
type extensionOptions struct {
	Options
	Extension extension.Flags
	Cluster   *cli.Cluster
	Source    extension.Source
}

const extensionExample = `  # Apply everything that a ClusterExtension in the cluster needs, including the enrollment of its user
  kubectl remit rbac clusterextension demo | kubectl apply -f -

  # For a ClusterExtension that does not exist yet
  kubectl remit rbac clusterextension -f demo.yaml
  kubectl remit rbac clusterextension demo --package my-operator --version 1.2.x -n demo-system

  # Without a cluster: with the catalog in a directory, a file or an image
  kubectl remit rbac clusterextension -f demo.yaml --catalog ./catalog

  # For a ClusterExtension that names a ServiceAccount, including the ServiceAccount
  kubectl remit rbac clusterextension demo --package my-operator -n demo-system --service-account installer --with-account`

func newExtensionCommand() *cobra.Command {
	o := &extensionOptions{Cluster: cli.NewCluster()}
	cmd := &cobra.Command{
		Use:   "clusterextension NAME",
		Short: "Print the minimal RBAC that a ClusterExtension needs",
		Long: "Print the minimal Roles, ClusterRoles and bindings that the identity of a ClusterExtension needs to install, run and remove the version that would be " +
			"installed, and the enrollment that allows Remit to act as the identity: the user olm:clusterextension:NAME or, if the ClusterExtension names one, a ServiceAccount.\n\n" +
			"The ClusterExtension is read from the cluster or from a manifest (--filename), or is described by --package; in the last two cases, it need not exist. The version is selected " +
			"from the ClusterCatalogs of the cluster or, with --catalog, from a directory, a file or an image. With --catalog and --filename or --package, no cluster is used.\n\n" +
			"The command reads the cluster with your credentials and writes nothing. It reads the content of ClusterCatalogs through the API server, which requires get on services/proxy in Remit's namespace.",
		Example: extensionExample,
		Args:    o.Extension.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			o.Source = extension.Source{In: cmd.InOrStdin(), ErrOut: o.ErrOut}
			if o.Extension.NeedsCluster() {
				o.Source.Cluster = o.Cluster
			}
			if cmd.Flags().Changed("namespace") {
				var err error
				if o.Extension.Namespace, err = o.Cluster.Namespace(); err != nil {
					return err
				}
			}
			return o.run(cmd.Context(), append(args, "")[0])
		},
		ValidArgsFunction: o.Cluster.CompleteNames(func() client.ObjectList { return &olmv1.ClusterExtensionList{} }),
	}
	o.Extension.AddFlags(cmd)
	o.Cluster.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&o.Format, "output", "o", formatYAML, "output format: yaml, json")
	flags.BoolVar(&o.WithAccount, "with-account", false, "also print the namespace of the ClusterExtension and the ServiceAccount that it names")
	completeOutput(cmd)
	return cmd
}

func (o *extensionOptions) run(ctx context.Context, name string) error {
	install, err := o.Extension.Load(ctx, name, o.Source)
	if err != nil {
		return err
	}
	report, err := assess.Required(install.Identity, install.Rendered, install.Steps, assess.StopNeeds(install.Extension, install.Rendered)...)
	if err != nil {
		return fmt.Errorf("%s: %w", install, err)
	}
	if len(report.Refused) > 0 {
		return fmt.Errorf("%s cannot be installed: %s", install, report.RefusedText())
	}
	how, note, err := install.Impersonation(o.Source.Cluster, o.ErrOut)
	if err != nil {
		return err
	}
	var first []client.Object
	if o.WithAccount {
		first = append(first, namespaceObject(install.Extension.Spec.Namespace))
		if !install.Identity.IsSynthetic() {
			first = append(first, accountObject(install.Identity.Account.Key()))
		}
	}
	objects, err := objectsOf(append(first, install.Enrollment(o.Extension.RemitNamespace, how)...), report)
	if err != nil {
		return err
	}
	for _, text := range install.Unmet {
		message.Fprintln(o.ErrOut, "note: nothing is installed until the cluster meets the requirements of the bundle:", text)
	}
	for _, text := range append(install.Notes, note) {
		if text != "" {
			message.Fprintln(o.ErrOut, "note:", text)
		}
	}
	return o.print(cmp.Or(report.ClusterAdmin(), report.Escalation()), objects)
}
