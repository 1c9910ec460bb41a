package preflight

import (
	"context"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/extension"
	"github.com/remit-olm/remit/pkg/lib/status"
)

// Missing is what an object in the cluster is missing, for a command that grants it.
type Missing struct {
	// Objects grant everything that is missing, in an order in which they can be created.
	Objects []client.Object
	// Basis identifies what was examined: the object with its content, and the ServiceAccount with its UID. Another plan, another
	// version or a ServiceAccount that was created again has another Basis.
	Basis string
	// Describe writes what is missing, and everything else that the check found, as text without YAML.
	Describe func(out io.Writer) error
	// Unconfirmed is set if the user named a Subscription, and nothing proves that the InstallPlan has the content of the
	// Subscription's catalog. The objects must then not be created without a decision of the user.
	Unconfirmed error
	// Elsewhere lists the target namespaces of the OperatorGroup, other than that of the plan, in which the Objects grant something;
	// rbac.ClusterScope stands for all namespaces. No bundle confirms them: whoever may write the OperatorGroup determines them.
	Elsewhere []string
	// Err is the error that the command preflight returns: nil if nothing is missing and no object is refused.
	Err error
	// Refused is the error that remains when the Objects have been created: nil if no object is refused for a reason other than missing
	// permissions.
	Refused error
}

// MissingForPlan examines an InstallPlan, or the InstallPlan of a Subscription. It fails if something is missing for a plan that Remit
// does not execute.
func MissingForPlan(ctx context.Context, o *Options, obj client.Object, name string) (*Missing, error) {
	i, err := o.objectInput(ctx, obj, name)
	if err != nil {
		return nil, err
	}
	if i.from == fromReport {
		return nil, fmt.Errorf("%s does not contain the manifests of its bundles, and other users can change its report: specify each bundle with --bundle", i.what)
	}
	r, err := i.evaluate(ctx)
	if err != nil {
		return nil, err
	}
	out := r.missing(fmt.Sprintf("%s %s", i.what, i.plan.UID)) // the plan's name commits to its content
	if len(out.Objects) == 0 {
		return out, nil
	}
	out.Unconfirmed = i.unconfirmed()
	out.Elsewhere = elsewhere(i.namespace, i.targets, out.Objects)
	return out, i.notExecuted()
}

// elsewhere returns the targets, except the namespace, in which the objects grant something.
func elsewhere(namespace string, targets []string, objs []client.Object) []string {
	return slices.DeleteFunc(slices.Clone(targets), func(target string) bool {
		return target == namespace || !slices.ContainsFunc(objs, func(obj client.Object) bool { return obj.GetNamespace() == target })
	})
}

// MissingForExtension examines a ClusterExtension.
func MissingForExtension(ctx context.Context, cluster *cli.Cluster, flags extension.Flags, name string, errOut io.Writer) (*Missing, error) {
	o := &extensionOptions{Options: Options{Cluster: cluster, ErrOut: errOut}, Extension: flags}
	r, err := o.check(ctx, name)
	if err != nil {
		return nil, err
	}
	if key := r.identity.Account.Key(); !r.identity.IsSynthetic() {
		sa := &corev1.ServiceAccount{}
		if err := r.client.Get(ctx, key, sa); err != nil {
			return nil, fmt.Errorf("%s is installed as ServiceAccount %s: %w", r.what, key, err)
		}
		r.identity.Account.UID = sa.UID
	}
	return r.missing(fmt.Sprintf("%s %s", r.what, r.install.Extension.UID)), nil // what includes the bundle and its version
}

// missing returns the result for a command that grants what is missing. basis identifies the object.
func (r *result) missing(basis string) *Missing {
	return &Missing{
		Objects:  r.objects(),
		Basis:    fmt.Sprintf("%s %s %s", basis, r.identity, r.identity.Account.UID),
		Describe: func(out io.Writer) error { return r.print(io.Discard, out, cli.YAML) },
		Err:      r.err(),
		Refused:  r.refused(),
	}
}

// maxRefused is the maximum length, in bytes, of the refusals in an error. Describe writes all of them.
const maxRefused = 4096

// refused returns an error that names the objects that are refused for a reason other than missing permissions.
func (r *result) refused() error {
	lines := make([]string, 0, len(r.report.Refused))
	for _, f := range r.report.Refused {
		lines = append(lines, f.Object+": "+f.Message)
	}
	if len(lines) == 0 {
		return nil
	}
	return &cli.ExitError{Code: cli.CodeMissing, Err: fmt.Errorf("%s cannot be installed: the grant does not change that %d object(s) are refused: %s",
		r.what, len(lines), status.Lines(lines, maxRefused))}
}
