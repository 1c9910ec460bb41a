package preflight

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/extension"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// extensionOptions holds the options of the "preflight clusterextension" command.
type extensionOptions struct {
	Options
	Extension extension.Flags
	In        io.Reader
}

const extensionExample = `  # What is missing for a ClusterExtension? To grant it: kubectl remit grant clusterextension/demo
  kubectl remit preflight clusterextension demo

  # For a ClusterExtension that does not exist yet
  kubectl remit preflight clusterextension -f demo.yaml
  kubectl remit preflight clusterextension demo --package my-operator -n demo-system

  # What would another version need?
  kubectl remit preflight clusterextension demo --version 2.x

  # Without a cluster
  kubectl remit preflight clusterextension -f demo.yaml --catalog example.com/catalogs/team:v1 --rbac-dir ./rbac`

func newExtensionCommand() *cobra.Command {
	o := &extensionOptions{Options: Options{Cluster: cli.NewCluster()}}
	cmd := &cobra.Command{
		Use:   "clusterextension NAME",
		Short: "List the permissions that the identity of a ClusterExtension is missing",
		Long: "List all permissions that the identity of a ClusterExtension is missing for the version that would be installed, and report whether Remit is allowed to act as the identity.\n\n" +
			"With -o yaml or -o json, standard output consists only of the objects that grant what is missing, including the enrollment, and everything else is printed to standard error. " +
			"With -o report, the output describes every rule and its purpose, for programs.\n\n" +
			"The ClusterExtension is read from the cluster or from a manifest (--filename), or is described by --package; in the last two cases, it need not exist. The version is selected " +
			"from the ClusterCatalogs of the cluster or, with --catalog, from a directory, a file or an image. With --rbac-dir, no cluster is used.\n\n" +
			"The command reads the cluster with your credentials and writes nothing. It reads the content of ClusterCatalogs through the API server, which requires get on services/proxy in Remit's namespace.\n\n" +
			"The exit status is 0 if nothing is missing, 1 if something is missing, and 2 if the check could not be completed.",
		Example: extensionExample,
		Args:    o.Extension.Args,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Out, o.ErrOut, o.In = cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.InOrStdin()
			if cmd.Flags().Changed("namespace") {
				var err error
				if o.Extension.Namespace, err = o.Options.Cluster.Namespace(); err != nil {
					return err
				}
			}
			return o.run(cmd.Context(), append(args, "")[0])
		},
		ValidArgsFunction: o.Options.Cluster.CompleteNames(func() client.ObjectList { return &olmv1.ClusterExtensionList{} }),
	}
	o.Extension.AddFlags(cmd)
	o.Format.AddFlag(cmd, formatReport)
	o.Options.Cluster.AddFlags(cmd)
	cmd.Flags().StringVar(&o.RBACDir, "rbac-dir", "", "check the RBAC manifests below this directory instead of a cluster")
	_ = cmd.MarkFlagDirname("rbac-dir") // fails only for an undefined flag
	return cmd
}

func (o *extensionOptions) run(ctx context.Context, name string) error {
	r, err := o.check(ctx, name)
	if err != nil {
		return err
	}
	if err := r.print(o.Out, o.ErrOut, o.Format); err != nil {
		return err
	}
	return r.err()
}

func (o *extensionOptions) check(ctx context.Context, name string) (*result, error) {
	from := extension.Source{Cluster: o.Options.Cluster, In: o.In, ErrOut: o.ErrOut}
	if o.RBACDir != "" {
		if o.Extension.NeedsCluster() {
			return nil, errors.New("--rbac-dir requires --catalog, and --filename or --package: otherwise, the ClusterExtension and its catalog would be read from a cluster")
		}
		from.Cluster = nil
	}
	install, err := o.Extension.Load(ctx, name, from)
	if err != nil {
		return nil, err
	}
	i, err := o.extensionInput(ctx, install)
	if err != nil {
		return nil, err
	}
	r, err := i.evaluate(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.checkEnrollment(r, from); err != nil {
		return nil, err
	}
	r.report.Notes = append(r.report.Notes, install.Notes...)
	return r, nil
}

// extensionInput returns the input of the check. The objects are rendered again, because the webhooks depend on the identity's
// permissions.
func (o *extensionOptions) extensionInput(ctx context.Context, install *extension.Install) (*input, error) {
	i := &input{
		what: install.String(), from: fromBundle, identity: install.Identity, namespace: install.Extension.Spec.Namespace,
		targets: install.Rendered.Targets, install: install, steps: install.Steps,
	}
	if o.RBACDir == "" {
		var err error
		if i.client, err = o.Options.Cluster.Client(o.ErrOut); err != nil {
			return nil, err
		}
	}
	if err := o.findPermissions(ctx, i.client, i); err != nil {
		return nil, err
	}
	clusterWide := i.permissions.In(rbac.ClusterScope).Set()
	if err := install.Render(func(rule rbacv1.PolicyRule) bool { return clusterWide.Covers([]rbacv1.PolicyRule{rule}) }); err != nil {
		return nil, err
	}
	i.setSteps(install.Steps)
	return i, nil
}

// checkEnrollment sets the enrollment if Remit is not allowed to act as the identity.
func (o *extensionOptions) checkEnrollment(r *result, from extension.Source) error {
	program := rbac.ServiceAccount(o.Extension.RemitNamespace, names.ServiceAccountExtension)
	enrolled, known, err := r.permissions.IsEnrolled(program)
	switch {
	case err != nil:
		return err
	case !known:
		r.report.Notes = append(r.report.Notes, "cannot determine whether Remit is allowed to act as the identity, because RBAC could not be read")
		return nil
	case enrolled:
		return nil
	}
	how, note, err := r.install.Impersonation(from.Cluster, o.ErrOut)
	if note != "" {
		r.report.Notes = append(r.report.Notes, note)
	}
	r.enrollment = r.install.Enrollment(o.Extension.RemitNamespace, how)
	return err
}

// extensionNeeds returns the permissions that the install of a ClusterExtension requires, as the controller determines them.
func (i *input) extensionNeeds(ctx context.Context) ([]preflight.Need, error) {
	needs, err := i.install.Needs(i.permissions.RulesOf)
	if err != nil || i.client == nil {
		return needs, err
	}
	if assess.IsStrict(i.install.Extension) {
		needs = append(needs, i.schemaNeeds(ctx)...)
	}
	removals, err := i.install.Removals(i.client.RESTMapper(), func(obj *unstructured.Unstructured, owner ownerutil.Lineage) bool {
		return i.examined.owns(ctx, i.client, obj, owner)
	})
	return append(needs, removals...), err
}

// refuseUnmet reports the requirements of the bundle that the cluster does not meet, and the optional permissions that the
// identity is missing.
func (i *input) refuseUnmet(report *preflight.Report) {
	if i.install == nil {
		return
	}
	for _, text := range i.install.Unmet {
		report.Refuse("requirements of the bundle", errors.New(text))
	}
	report.Notes = append(report.Notes, assess.StopNotes(i.identity, i.install.Extension, i.install.Rendered, i.permissions.In)...)
}

// refuseMissing reports that the namespace or the ServiceAccount of a ClusterExtension does not exist.
func (i *input) refuseMissing(ctx context.Context, report *preflight.Report) {
	if i.install == nil || i.client == nil {
		return
	}
	required := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.namespace}}}
	if key := i.identity.Account.Key(); !i.identity.IsSynthetic() {
		required = append(required, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
	}
	for _, obj := range required {
		what := apply.Describe(obj)
		if err := i.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); apierrors.IsNotFound(err) {
			report.Refuse(what, errors.New("it does not exist; create it"))
		}
	}
}
