package grant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/extension"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/cmd/kubectl-remit/preflight"
	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Options holds the options of the command.
type Options struct {
	// Yes creates the objects without asking.
	Yes bool
	// Bundles are bundle directories or images that an InstallPlan must match, and PlainHTTP allows a registry without TLS.
	Bundles   []string
	PlainHTTP bool
	// Targets are the namespaces, in addition to that of the InstallPlan, in which Yes may grant permissions. AllNamespaces stands
	// for all of them.
	Targets []string
	Format  cli.Format
	// RemitNamespace is where Remit is installed, and Provider issues the certificates of webhooks and APIs. Both concern only
	// ClusterExtensions.
	RemitNamespace string
	Provider       serving.Provider
	Cluster        *cli.Cluster
	In             io.Reader
	Out            io.Writer
	ErrOut         io.Writer
}

// AllNamespaces is the value of --target for an OperatorGroup that targets all namespaces.
const AllNamespaces = "*"

const example = `  # Grant what the account is missing for the InstallPlan install-abcde in the namespace team-a
  kubectl remit grant team-a/install-abcde

  # For the InstallPlan of a Subscription
  kubectl remit grant subscription/my-operator -n team-a

  # For a ClusterExtension, including the enrollment of its user
  kubectl remit grant clusterextension/my-extension

  # Without a question, if the InstallPlan has exactly the content of this bundle
  kubectl remit grant subscription/my-operator -n team-a --bundle registry.example.com/my-operator-bundle:v1.2.3 --yes

  # Only print the objects
  kubectl remit grant subscription/my-operator -n team-a -o yaml`

// usage names the argument of the command.
const usage = "NAMESPACE/INSTALLPLAN | subscription/NAME | installplan/NAME | clusterextension/NAME"

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	o := &Options{Cluster: cli.NewCluster()}
	cmd := &cobra.Command{
		Use:   "grant " + usage,
		Short: "Grant the permissions that an install is missing",
		Long: "Determine the permissions that the account of an InstallPlan, or the identity of a ClusterExtension, is missing, print the RBAC that grants them, ask, and create it.\n\n" +
			"The command examines the cluster as preflight does, and takes nothing that it grants from statuses and reports. " +
			"In particular, the InstallPlan of a Subscription is the one whose pins name the Subscription and that is not finished. " +
			"If what is missing changes while it asks, it creates nothing. It does not change existing objects: it fails if an object exists " +
			"that differs from the one to create, or if someone else is already bound to a role that does not exist yet.\n\n" +
			"Users who can create InstallPlans can create one that names any CatalogSource but has other content. For each bundle, the command reports whether the CatalogSource, " +
			"if it has a ConfigMap, or --bundle has the same content, and it refuses an InstallPlan whose content differs. If the argument is a Subscription, --yes requires that the content of its bundle is confirmed " +
			"in this way, and that of all other bundles of the InstallPlan by --bundle.\n\n" +
			"A confirmed bundle does not confirm the target namespaces of the OperatorGroup, which decide where permissions are granted. With --yes, name each of them, " +
			"except the namespace of the InstallPlan, with --target, or all namespaces with --target '*'.\n\n" +
			"The command uses your credentials. To grant permissions, you must have them, or have the verbs escalate and bind. With -o yaml and -o json, it only prints the objects.\n\n" +
			"The exit status is 0 if everything has been granted or nothing was missing, 1 if you decline or an object cannot be installed for another reason, and 2 on any other failure.",
		Example: example,
		Args:    cli.ExactArgs(usage),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.In, o.Out, o.ErrOut = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			check, err := o.target(args[0], cmd.Flags().Changed("namespace"))
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), check)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"subscription/", "installplan/", "clusterextension/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
	}
	o.Format.AddFlag(cmd)
	o.Cluster.AddFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&o.Yes, "yes", "y", false, "create the objects without asking")
	source.AddBundleFlag(cmd, &o.Bundles)
	flags.StringSliceVar(&o.Targets, "target", nil, "with --yes, another namespace in which the OperatorGroup may let permissions be granted, or '*' for all namespaces (repeatable)")
	flags.BoolVar(&o.PlainHTTP, "plain-http", false, "allow a registry without TLS; not required for a registry on this machine")
	flags.StringVar(&o.RemitNamespace, "remit-namespace", names.DefaultNamespace, "namespace where Remit is installed, for a ClusterExtension")
	flags.Var(&o.Provider, "webhook-certificates", "provider of the certificates of webhooks and APIs, for a ClusterExtension; must match the flag of Remit's extension program: "+
		strings.Join(serving.Providers(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("webhook-certificates", cobra.FixedCompletions(serving.Providers(), cobra.ShellCompDirectiveNoFileComp)) // fails only for an undefined flag
	return cmd
}

// checker determines what is missing.
type checker func(ctx context.Context) (*preflight.Missing, error)

// target returns a checker for the command's argument. isNamed reports whether --namespace is set.
func (o *Options) target(arg string, isNamed bool) (checker, error) {
	kind, name, _ := strings.Cut(arg, "/")
	if name == "" {
		return nil, fmt.Errorf("%q: must be %s", arg, usage)
	}
	switch strings.ToLower(kind) {
	case "subscription", "subscriptions", "sub", "subs":
		return o.plan("", func() client.Object { return &operatorsv1alpha1.Subscription{} }, name), nil
	case "installplan", "installplans", "ip":
		return o.plan("", newPlan, name), nil
	case "clusterextension", "clusterextensions":
		if len(o.Bundles) > 0 {
			return nil, errors.New("--bundle cannot be used with a ClusterExtension")
		}
		if len(o.Targets) > 0 {
			return nil, errors.New("--target cannot be used with a ClusterExtension, which has no OperatorGroup")
		}
		return o.extension(name), nil
	}
	if isNamed {
		return nil, errors.New("--namespace cannot be used with NAMESPACE/INSTALLPLAN; use installplan/NAME")
	}
	key, err := scoped.ParseKey(arg)
	return o.plan(key.Namespace, newPlan, key.Name), err
}

func newPlan() client.Object { return &operatorsv1alpha1.InstallPlan{} }

func (o *Options) plan(namespace string, newObject func() client.Object, name string) checker {
	check := &preflight.Options{Cluster: o.Cluster, Namespace: namespace, Bundles: o.Bundles, ErrOut: o.ErrOut}
	check.PlainHTTP = o.PlainHTTP
	return func(ctx context.Context) (*preflight.Missing, error) {
		return preflight.MissingForPlan(ctx, check, newObject(), name)
	}
}

func (o *Options) extension(name string) checker {
	return func(ctx context.Context) (*preflight.Missing, error) {
		flags := extension.Flags{RemitNamespace: o.RemitNamespace, Provider: o.Provider}
		return preflight.MissingForExtension(ctx, o.Cluster, flags, name, o.ErrOut)
	}
}

// ForExtension grants what a ClusterExtension is missing.
func (o *Options) ForExtension(ctx context.Context, name string) error {
	return o.run(ctx, o.extension(name))
}
