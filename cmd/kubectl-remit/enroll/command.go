package enroll

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// Values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
)

// Values of --for.
const (
	forOperatorGroups    = "operatorgroups"
	forClusterExtensions = "clusterextensions"
)

// Options holds the options of the commands enroll and unenroll.
type Options struct {
	// RemitNamespace is where Remit is installed.
	RemitNamespace string
	// For is forOperatorGroups or forClusterExtensions: the kind of objects that name the account.
	For string
	// Authors and AuthorGroups are the users and groups that may name the account, or install a ClusterExtension as its
	// synthetic user.
	Authors      []string
	AuthorGroups []string
	// DryRun is dryRunNone or dryRunClient, which prints the objects without sending any request.
	DryRun  string
	Format  cli.Format
	Cluster *cli.Cluster
	Out     io.Writer
	ErrOut  io.Writer
}

const enrollExample = `  # Let Remit act as the ServiceAccount installer of the namespace team-a
  kubectl remit enroll installer -n team-a
  kubectl remit enroll team-a/installer

  # Also let alice name the ServiceAccount in an OperatorGroup
  kubectl remit enroll installer -n team-a --author alice@example.com

  # Print the manifests, to store them in a repository
  kubectl remit enroll installer -n team-a --dry-run=client -o yaml

  # Let Remit act as the synthetic user of the ClusterExtension demo
  kubectl remit enroll clusterextension demo`

// NewCommand returns the command "enroll".
func NewCommand() *cobra.Command {
	o := &Options{}
	cmd := o.command(&cobra.Command{
		Use:   "enroll [NAMESPACE/]SERVICEACCOUNT",
		Short: "Let Remit act as a ServiceAccount",
		Long: "Let Remit's programs request tokens for one ServiceAccount, so that OperatorGroups can name it. This creates " +
			"a Role and a RoleBinding in its namespace. With --author, also let users name it in an OperatorGroup, by granting them permission to impersonate it. " +
			"With --for=clusterextensions, ClusterExtensions can name it instead.\n\n" +
			"The command uses your credentials, and requires the permissions that it grants: create on serviceaccounts/token of this ServiceAccount and, for --author, " +
			"impersonate on it. A namespace's administrator (ClusterRole admin) has both.",
		Example: enrollExample,
	}, o.enroll)
	cmd.AddCommand(newExtensionCommand())
	return cmd
}

const unenrollExample = `  # Stop Remit from acting as the ServiceAccount
  kubectl remit unenroll installer -n team-a

  # Also stop alice from naming the ServiceAccount
  kubectl remit unenroll installer -n team-a --author alice@example.com`

// NewUnenrollCommand returns the command "unenroll".
func NewUnenrollCommand() *cobra.Command {
	o := &Options{}
	cmd := o.command(&cobra.Command{
		Use:   "unenroll [NAMESPACE/]SERVICEACCOUNT",
		Short: "Stop Remit from acting as a ServiceAccount",
		Long: "Delete the objects that enroll creates with the same flags. Installed operators continue to run, but Remit no longer installs, " +
			"upgrades or removes anything as the ServiceAccount. Tokens that were already issued are valid for up to 30 minutes, unless the ServiceAccount is deleted.",
		Example: unenrollExample,
	}, o.unenroll)
	cmd.AddCommand(newUnenrollExtensionCommand())
	return cmd
}

func (o *Options) command(cmd *cobra.Command, run func(*cobra.Command, types.NamespacedName) error) *cobra.Command {
	o.Cluster = cli.NewCluster()
	cmd.Args = cli.ExactArgs("[NAMESPACE/]SERVICEACCOUNT")
	cmd.ValidArgsFunction = o.Cluster.CompleteNames(func() client.ObjectList { return &corev1.ServiceAccountList{} })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := cmp.Or(o.check(), checkChoice("for", o.For, forValues())); err != nil {
			return err
		}
		account, err := o.account(args[0], cmd.Flags().Changed("namespace"))
		if err != nil {
			return err
		}
		return run(cmd, account)
	}
	o.addFlags(cmd, "name the ServiceAccount in an OperatorGroup or, with --for, in a ClusterExtension")
	choice(cmd, &o.For, "for", forValues(), "kind of objects that name the ServiceAccount: operatorgroups or clusterextensions")
	return cmd
}

// addFlags adds the flags of all commands. may describes what --author allows.
func (o *Options) addFlags(cmd *cobra.Command, may string) {
	o.Format.AddFlag(cmd)
	o.Cluster.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.RemitNamespace, "remit-namespace", names.DefaultNamespace, "namespace where Remit is installed")
	flags.StringArrayVar(&o.Authors, "author", nil, "user who may "+may+" (repeatable)")
	flags.StringArrayVar(&o.AuthorGroups, "author-group", nil, "group whose users may "+may+" (repeatable)")
	choice(cmd, &o.DryRun, "dry-run", dryRuns(), "must be \"none\" or \"client\"; with \"client\", only print the objects and send no requests")
}

// choice adds a flag with a fixed list of values, the default first.
func choice(cmd *cobra.Command, value *string, name string, values []string, usage string) {
	cmd.Flags().StringVar(value, name, values[0], usage)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails only for an undefined flag
}

// checkChoice returns an error if the value of a flag is not one of the values.
func checkChoice(name, value string, values []string) error {
	if !slices.Contains(values, value) {
		return fmt.Errorf("--%s=%s: must be one of %q", name, value, values)
	}
	return nil
}

// account returns the ServiceAccount that an argument names, as NAME or NAMESPACE/NAME. isNamed reports whether
// --namespace is set.
func (o *Options) account(arg string, isNamed bool) (types.NamespacedName, error) {
	isKey := strings.Contains(arg, "/")
	if isKey && !isNamed {
		return scoped.ParseKey(arg)
	}
	namespace, err := o.Cluster.Namespace()
	if err != nil {
		return types.NamespacedName{}, err
	}
	if !isKey {
		arg = namespace + "/" + arg
	}
	account, err := scoped.ParseKey(arg)
	if err == nil && account.Namespace != namespace {
		err = fmt.Errorf("%q is not in namespace %q, which --namespace selects", arg, namespace)
	}
	return account, err
}

func (o *Options) check() error {
	if err := checkChoice("dry-run", o.DryRun, dryRuns()); err != nil {
		return err
	}
	if slices.Contains(append(slices.Clone(o.Authors), o.AuthorGroups...), "") {
		return errors.New("--author and --author-group: names must not be empty")
	}
	return cli.CheckRemitNamespace(o.RemitNamespace)
}

func dryRuns() []string { return []string{dryRunNone, dryRunClient} }

func forValues() []string { return []string{forOperatorGroups, forClusterExtensions} }

// objects returns the objects that enroll creates for an account, each Role before its binding.
func (o *Options) objects(account types.NamespacedName) []client.Object {
	objs := scoped.Enrollment(account, o.RemitNamespace)
	if o.For == forClusterExtensions {
		objs = scoped.ExtensionAccountEnrollment(account, o.RemitNamespace)
	}
	for _, author := range o.authors() {
		objs = append(objs, scoped.Authorship(account, author)...)
	}
	return objs
}

// authors returns the subjects that --author and --author-group name.
func (o *Options) authors() []rbacv1.Subject {
	var out []rbacv1.Subject
	for kind, authors := range [][]string{o.Authors, o.AuthorGroups} {
		for _, name := range authors {
			out = append(out, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: []string{rbacv1.UserKind, rbacv1.GroupKind}[kind], Name: name})
		}
	}
	return out
}
