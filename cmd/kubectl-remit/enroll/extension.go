package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/grant"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/ensure"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// impersonationAuto is the value of --impersonation that selects the best form that the API server supports.
const impersonationAuto = "auto"

func impersonations() []string {
	return []string{impersonationAuto, string(scoped.ImpersonationConstrained), string(scoped.ImpersonationLegacy)}
}

// extensionOptions are the options of the commands enroll clusterextension and unenroll clusterextension.
type extensionOptions struct {
	Options
	// Impersonation is one of the values that impersonations returns.
	Impersonation string
	// Grant also grants what the ClusterExtension is missing, after a question unless Yes is set.
	Grant, Yes bool
}

const extensionExample = `  # Let Remit act as the synthetic user of the ClusterExtension demo
  kubectl remit enroll clusterextension demo

  # Also grant what the ClusterExtension, which must exist, is missing
  kubectl remit enroll clusterextension demo --grant

  # Let alice create that ClusterExtension
  kubectl remit enroll clusterextension demo --author alice@example.com

  # Print the manifests for an API server before Kubernetes 1.36, to store them in a repository
  kubectl remit enroll clusterextension demo --dry-run=client -o yaml --impersonation=legacy`

func newExtensionCommand() *cobra.Command {
	o := &extensionOptions{}
	cmd := o.command(&cobra.Command{
		Use:   "clusterextension NAME",
		Short: "Let Remit act as the synthetic user of a ClusterExtension",
		Long: "Let Remit impersonate the synthetic user of a ClusterExtension without spec.serviceAccount: user olm:clusterextension:NAME in group " +
			"olm:clusterextensions. This creates a ClusterRole and a ClusterRoleBinding. They grant no permissions to the user itself, and the ClusterExtension " +
			"need not exist yet. With --author, also let users create the ClusterExtension, by granting them the verb install on it.\n\n" +
			"In Kubernetes 1.36 and later, the permission is limited to the verbs of the requests that Remit sends (constrained impersonation). Older API servers " +
			"support only the permission to send any request as the user; --impersonation=legacy also selects this form for API servers that disable the feature " +
			"gate ConstrainedImpersonation.\n\n" +
			"With --grant, also grant the user the permissions that the ClusterExtension is missing, as the command grant does: print them, ask, and create them.\n\n" +
			"The command uses your credentials, and requires the permissions that it grants. A cluster administrator has them.",
		Example: extensionExample,
	}, o.enrollAndGrant)
	cmd.Flags().BoolVar(&o.Grant, "grant", false, "also grant the permissions that the ClusterExtension is missing")
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "with --grant, create the objects without asking")
	return cmd
}

// enrollAndGrant enrolls the identity and, with --grant, grants what the ClusterExtension is missing.
func (o *extensionOptions) enrollAndGrant(cmd *cobra.Command, identity scoped.Identity) error {
	if o.Grant && (o.DryRun != dryRunNone || o.Format != cli.Text) {
		return errors.New("--grant cannot be used with --dry-run or --output; to print the objects, use kubectl remit grant -o yaml")
	}
	if err := o.enroll(cmd, identity); err != nil || !o.Grant {
		return err
	}
	more := grant.Options{
		Yes: o.Yes, Format: cli.Text, RemitNamespace: o.RemitNamespace, Cluster: o.Cluster, In: cmd.InOrStdin(), Out: o.Out, ErrOut: o.ErrOut,
	}
	return more.ForExtension(cmd.Context(), identity.Extension)
}

const unenrollExtensionExample = `  # Stop Remit from acting as the synthetic user of the ClusterExtension demo
  kubectl remit unenroll clusterextension demo`

func newUnenrollExtensionCommand() *cobra.Command {
	o := &extensionOptions{}
	return o.command(&cobra.Command{
		Use:   "clusterextension NAME",
		Short: "Stop Remit from acting as the synthetic user of a ClusterExtension",
		Long: "Delete the objects that enroll clusterextension creates with the same flags. The installed operator continues to run, but within ten seconds Remit " +
			"can no longer install, upgrade or remove anything as the user.",
		Example: unenrollExtensionExample,
	}, o.unenroll)
}

func (o *extensionOptions) command(cmd *cobra.Command, run func(*cobra.Command, scoped.Identity) error) *cobra.Command {
	o.Cluster = cli.NewCluster()
	cmd.Args = cli.ExactArgs("NAME")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Out, o.ErrOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := o.check(); err != nil {
			return err
		}
		if err := checkChoice("impersonation", o.Impersonation, impersonations()); err != nil {
			return err
		}
		identity, err := scoped.ExtensionIdentity(args[0])
		if err != nil {
			return err
		}
		return run(cmd, identity)
	}
	o.addFlags(cmd, "create the ClusterExtension without spec.serviceAccount")
	choice(cmd, &o.Impersonation, "impersonation", impersonations(), "form of the permission to impersonate the user: auto, constrained or legacy")
	return cmd
}

func (o *extensionOptions) enroll(cmd *cobra.Command, identity scoped.Identity) error {
	if o.DryRun == dryRunClient {
		how := o.impersonation()
		if how == "" {
			how = scoped.ImpersonationConstrained
			message.Fprintln(o.ErrOut, "note: constrained impersonation requires Kubernetes 1.36; for an older API server, use --impersonation=legacy")
		}
		return o.print(o.objects(identity, how), dryRun(ensure.Created))
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return err
	}
	how, err := o.findImpersonation(cmd.Context(), c, identity)
	if err != nil {
		return extensionHint(err, identity)
	}
	if how == scoped.ImpersonationLegacy {
		message.Fprintf(o.ErrOut, "note: this enrollment is not limited to the verbs that Remit uses; it allows every request as %s\n", identity.Username())
	}
	return extensionHint(o.each(cmd.Context(), c, o.objects(identity, how), ensure.Change.Make), identity)
}

func (o *extensionOptions) unenroll(cmd *cobra.Command, identity scoped.Identity) error {
	objects := func(how scoped.Impersonation) []client.Object {
		objs := o.objects(identity, how)
		slices.Reverse(objs) // bindings first, so that the first request removes the permissions
		return objs
	}
	if o.DryRun == dryRunClient {
		how := o.impersonation()
		if how == "" {
			how = scoped.ImpersonationConstrained
		}
		return o.print(objects(how), dryRun(ensure.Deleted))
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return err
	}
	how, err := o.findImpersonation(cmd.Context(), c, identity)
	if err != nil {
		return extensionHint(err, identity)
	}
	return extensionHint(o.each(cmd.Context(), c, objects(how), ensure.Change.Remove), identity)
}

// objects returns the objects that enroll creates, each role before its binding.
func (o *extensionOptions) objects(identity scoped.Identity, how scoped.Impersonation) []client.Object {
	objs := scoped.ExtensionEnrollment(identity, o.RemitNamespace, how)
	for _, author := range o.authors() {
		objs = append(objs, scoped.ExtensionAuthorship(identity.Extension, author)...)
	}
	return objs
}

// impersonation returns the form that --impersonation selects; "" for auto.
func (o *extensionOptions) impersonation() scoped.Impersonation {
	if o.Impersonation == impersonationAuto {
		return ""
	}
	return scoped.Impersonation(o.Impersonation)
}

// findImpersonation returns the form that --impersonation selects, the form of an existing enrollment, or the form
// that the API server's version suggests, in this order of precedence. The API server does not report which forms
// it supports: access reviews evaluate only the rules.
func (o *extensionOptions) findImpersonation(ctx context.Context, c client.Client, identity scoped.Identity) (scoped.Impersonation, error) {
	if how := o.impersonation(); how != "" {
		return how, nil
	}
	for _, how := range []scoped.Impersonation{scoped.ImpersonationConstrained, scoped.ImpersonationLegacy} {
		want := scoped.ExtensionEnrollment(identity, o.RemitNamespace, how)[0]
		live := &rbacv1.ClusterRole{}
		err := c.Get(ctx, client.ObjectKeyFromObject(want), live)
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("get %s: %w", apply.Describe(want), err)
		}
		if ensure.SameRules(live, want) {
			return how, nil
		}
	}
	version, err := o.Cluster.ServerVersion(o.ErrOut)
	if err != nil {
		return "", fmt.Errorf("%w; alternatively, use --impersonation", err)
	}
	return scoped.ImpersonationFor(version), nil
}

// extensionHint adds the required permissions to a Forbidden error.
func extensionHint(err error, identity scoped.Identity) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w\nTo enroll ClusterExtension %s, you need these permissions: get, create, update and delete on clusterroles and clusterrolebindings, and "+
		"the permissions that enrollment grants; --dry-run=client -o yaml shows them. A cluster administrator (ClusterRole cluster-admin) has all of them",
		err, identity.Extension)
}
