package enroll

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/ensure"
	"github.com/remit-olm/remit/pkg/lib/message"
)

func (o *Options) enroll(cmd *cobra.Command, account types.NamespacedName) error {
	objs := o.objects(account)
	if o.DryRun == dryRunClient {
		return o.print(objs, dryRun(ensure.Created))
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return err
	}
	if err := o.exists(cmd.Context(), c, account); err != nil {
		return err
	}
	return hint(o.each(cmd.Context(), c, objs, ensure.Change.Make), account)
}

// dryRun returns a function for print that reports the same result for each object.
func dryRun(result string) func(int) string {
	return func(int) string { return result + " (dry run)" }
}

// each reads the current state of all objects, then changes them one after another and prints the results, including those that precede
// a failure.
func (o *Options) each(ctx context.Context, c client.Client, objs []client.Object, act func(ensure.Change, context.Context, client.Client) (string, error)) error {
	changes, err := ensure.Gather(ctx, c, "enroll", objs)
	if err != nil {
		return err
	}
	done, err := ensure.Each(ctx, c, changes, act)
	if len(done) == 0 {
		return err
	}
	return cmp.Or(err, o.print(objs[:len(done)], func(i int) string { return done[i] }))
}

// exists returns an error if the ServiceAccount does not exist, so that a mistyped name is not enrolled. It only
// prints a warning if the user is not allowed to get the ServiceAccount.
func (o *Options) exists(ctx context.Context, c client.Client, account types.NamespacedName) error {
	err := c.Get(ctx, account, &corev1.ServiceAccount{})
	if apierrors.IsForbidden(err) {
		message.Fprintf(o.ErrOut, "warning: cannot verify that ServiceAccount %s exists: %v\n", account, err)
		return nil
	}
	return err
}

func (o *Options) unenroll(cmd *cobra.Command, account types.NamespacedName) error {
	objs := o.objects(account)
	slices.Reverse(objs) // bindings first, so that the first request removes the permissions
	if o.DryRun == dryRunClient {
		return o.print(objs, dryRun(ensure.Deleted))
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return err
	}
	return hint(o.each(cmd.Context(), c, objs, ensure.Change.Remove), account)
}

// hint adds the required permissions to a Forbidden error.
func hint(err error, account types.NamespacedName) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w\nTo enroll ServiceAccount %s, you need these permissions in namespace %s: get, create, update and delete on roles and rolebindings, and "+
		"the permissions that enrollment grants: create on serviceaccounts/token, resourceNames [%s]; for --author also impersonate on serviceaccounts, "+
		"resourceNames [%[4]s]. A namespace's administrator (ClusterRole admin) has all of them", err, account, account.Namespace, account.Name)
}

// print prints the objects in the requested format; as text, it prints the result for each object.
func (o *Options) print(objs []client.Object, done func(i int) string) error {
	if o.Format != cli.Text {
		return o.Format.EncodeObjects(o.Out, objs)
	}
	for i, obj := range objs {
		message.Fprintln(o.Out, ensure.Resource(obj), done(i))
	}
	return nil
}
