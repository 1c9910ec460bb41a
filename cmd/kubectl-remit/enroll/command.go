package enroll

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
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

// Options of both commands.
type Options struct {
	// RemitNamespace is where Remit is installed.
	RemitNamespace string
	// Authors and AuthorGroups are the users and groups that may name the account in an OperatorGroup.
	Authors      []string
	AuthorGroups []string
	// DryRun is dryRunNone, or dryRunClient to print without sending any request.
	DryRun  string
	Format  cli.Format
	Cluster *cli.Cluster
	Out     io.Writer
	ErrOut  io.Writer
}

const enrollExample = `  # Let Remit act as the ServiceAccount installer of the namespace team-a
  kubectl remit enroll installer -n team-a
  kubectl remit enroll team-a/installer

  # Let alice name it in an OperatorGroup as well
  kubectl remit enroll installer -n team-a --author alice@example.com

  # Print the manifests, to store them in a repository
  kubectl remit enroll installer -n team-a --dry-run=client -o yaml`

// NewCommand returns the command "enroll".
func NewCommand() *cobra.Command {
	o := &Options{}
	return o.command(&cobra.Command{
		Use:   "enroll [NAMESPACE/]SERVICEACCOUNT",
		Short: "Let Remit act as a ServiceAccount",
		Long: "Let Remit's programs request tokens of one ServiceAccount, so that OperatorGroups can name it. This creates " +
			"a Role and a RoleBinding in its namespace. With --author, also let users name it in an OperatorGroup, by granting them permission to impersonate it.\n\n" +
			"The command runs as you, and requires the permissions that it grants: create on serviceaccounts/token of this ServiceAccount and, for --author, " +
			"impersonate on it. A namespace's administrator (ClusterRole admin) has both.",
		Example: enrollExample,
	}, o.enroll)
}

const unenrollExample = `  # Stop Remit from acting as the ServiceAccount
  kubectl remit unenroll installer -n team-a

  # Also stop alice from naming it
  kubectl remit unenroll installer -n team-a --author alice@example.com`

// NewUnenrollCommand returns the command "unenroll".
func NewUnenrollCommand() *cobra.Command {
	o := &Options{}
	return o.command(&cobra.Command{
		Use:   "unenroll [NAMESPACE/]SERVICEACCOUNT",
		Short: "Stop Remit from acting as a ServiceAccount",
		Long: "Delete what enroll creates with the same flags. Installed operators continue to run, but nothing is installed, " +
			"upgraded or removed as the ServiceAccount anymore. Tokens that were already issued are valid for up to 30 minutes, unless the ServiceAccount is deleted.",
		Example: unenrollExample,
	}, o.unenroll)
}

func (o *Options) command(cmd *cobra.Command, run func(*cobra.Command, types.NamespacedName) error) *cobra.Command {
	o.Cluster = cli.NewCluster()
	cmd.Args = cli.ExactArgs("[NAMESPACE/]SERVICEACCOUNT")
	cmd.ValidArgsFunction = o.Cluster.CompleteNames(func() client.ObjectList { return &corev1.ServiceAccountList{} })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := o.check(); err != nil {
			return err
		}
		account, err := o.account(args[0], cmd.Flags().Changed("namespace"))
		if err != nil {
			return err
		}
		return run(cmd, account)
	}
	o.Format.AddFlag(cmd)
	o.Cluster.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.RemitNamespace, "remit-namespace", names.DefaultNamespace, "namespace where Remit is installed")
	flags.StringArrayVar(&o.Authors, "author", nil, "user who may name the ServiceAccount in an OperatorGroup (repeatable)")
	flags.StringArrayVar(&o.AuthorGroups, "author-group", nil, "group whose users may name the ServiceAccount in an OperatorGroup (repeatable)")
	flags.StringVar(&o.DryRun, "dry-run", dryRunNone, "\"none\", or \"client\" to only print the objects, without sending any request")
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(dryRuns(), cobra.ShellCompDirectiveNoFileComp)) // fails only for an undefined flag
	return cmd
}

// account returns the ServiceAccount that an argument names, as NAME or NAMESPACE/NAME; isNamed is whether --namespace is set.
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
		err = fmt.Errorf("%q is not in namespace %q of --namespace", arg, namespace)
	}
	return account, err
}

func (o *Options) check() error {
	if !slices.Contains(dryRuns(), o.DryRun) {
		return fmt.Errorf("--dry-run=%s: must be one of %q", o.DryRun, dryRuns())
	}
	if slices.Contains(append(slices.Clone(o.Authors), o.AuthorGroups...), "") {
		return errors.New("--author: a name must not be empty")
	}
	if problems := validation.ValidateNamespaceName(o.RemitNamespace, false); len(problems) > 0 {
		return fmt.Errorf("--remit-namespace=%s: %s", o.RemitNamespace, problems[0])
	}
	return nil
}

func dryRuns() []string { return []string{dryRunNone, dryRunClient} }

// objects returns what enroll creates for an account, each Role before its binding.
func (o *Options) objects(account types.NamespacedName) []client.Object {
	objs := scoped.Enrollment(account, o.RemitNamespace)
	for kind, authors := range [][]string{o.Authors, o.AuthorGroups} {
		for _, name := range authors {
			author := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: []string{rbacv1.UserKind, rbacv1.GroupKind}[kind], Name: name}
			objs = append(objs, scoped.Authorship(account, author)...)
		}
	}
	return objs
}
