package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/rbac"
)

// fieldManager is the field manager of both commands.
const fieldManager = "kubectl-remit"

// Results, in kubectl's terms.
const (
	created    = "created"
	configured = "configured"
	unchanged  = "unchanged"
	deleted    = "deleted"
	notFound   = "not found"
)

// change is a wanted object and its current state; live is nil if it does not exist.
type change struct {
	want, live client.Object
	// complete is set if live needs no change.
	complete bool
}

func (o *Options) enroll(cmd *cobra.Command, account types.NamespacedName) error {
	objs := o.objects(account)
	if o.DryRun == dryRunClient {
		return o.print(objs, dryRun(created))
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return err
	}
	if err := o.exists(cmd.Context(), c, account); err != nil {
		return err
	}
	return hint(o.each(cmd.Context(), c, objs, change.make), account)
}

// dryRun returns a function for print that reports the same result for each object.
func dryRun(result string) func(int) string {
	return func(int) string { return result + " (dry run)" }
}

// each reads the current state of all objects, then changes them one after another and prints the results.
func (o *Options) each(ctx context.Context, c client.Client, objs []client.Object, act func(change, context.Context, client.Client) (string, error)) error {
	changes, err := gather(ctx, c, objs)
	if err != nil {
		return err
	}
	done := make([]string, 0, len(changes))
	for _, x := range changes {
		verb, err := act(x, ctx, c)
		if err != nil {
			return err
		}
		done = append(done, verb)
	}
	return o.print(objs, func(i int) string { return done[i] })
}

// exists returns an error if the ServiceAccount does not exist, so that a mistyped name is not enrolled. It only
// prints a warning if the user is not allowed to get the ServiceAccount.
func (o *Options) exists(ctx context.Context, c client.Client, account types.NamespacedName) error {
	err := c.Get(ctx, account, &corev1.ServiceAccount{})
	if apierrors.IsForbidden(err) {
		fmt.Fprintf(o.ErrOut, "warning: cannot verify that ServiceAccount %s exists: %v\n", account, err)
		return nil
	}
	return err
}

// gather reads the current state of the objects. If there are objects that the commands must not change, it returns one
// error that lists all of them, so nothing is written.
func gather(ctx context.Context, c client.Client, objs []client.Object) ([]change, error) {
	changes := make([]change, 0, len(objs))
	var problems []error
	for _, want := range objs {
		x := change{want: want}
		live, err := read(ctx, c, want)
		if err != nil {
			return nil, err
		}
		if live != nil {
			x.live = live
			if x.complete, err = compare(live, want); err != nil {
				problems = append(problems, err)
			}
		}
		changes = append(changes, x)
	}
	return changes, errors.Join(problems...)
}

func read(ctx context.Context, c client.Client, want client.Object) (client.Object, error) {
	live, ok := want.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an object", want)
	}
	err := c.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", describe(want), err)
	}
	live.GetObjectKind().SetGroupVersionKind(want.GetObjectKind().GroupVersionKind())
	return live, nil
}

// make creates the object or adds the missing subjects, and returns the result in kubectl's terms.
func (x change) make(ctx context.Context, c client.Client) (string, error) {
	switch {
	case x.live == nil:
		obj, _ := x.want.DeepCopyObject().(client.Object)
		if err := c.Create(ctx, obj, client.FieldOwner(fieldManager)); err != nil {
			return "", fmt.Errorf("create %s: %w", describe(x.want), err)
		}
		return created, nil
	case x.complete:
		return unchanged, nil
	}
	if !copySubjects(x.live, x.want) { // compare reports only bindings as incomplete
		return "", fmt.Errorf("%T is not a binding", x.live)
	}
	if err := c.Update(ctx, x.live, client.FieldOwner(fieldManager)); err != nil {
		return "", fmt.Errorf("update %s: %w", describe(x.want), err)
	}
	return configured, nil
}

// copySubjects copies the subjects of one binding to another. It returns false if the objects are not bindings.
func copySubjects(to, from client.Object) bool {
	switch to := to.(type) {
	case *rbacv1.RoleBinding:
		to.Subjects = slices.Clone(rbac.SubjectsOf(from))
	case *rbacv1.ClusterRoleBinding:
		to.Subjects = slices.Clone(rbac.SubjectsOf(from))
	default:
		return false
	}
	return true
}

func (o *Options) unenroll(cmd *cobra.Command, account types.NamespacedName) error {
	objs := o.objects(account)
	slices.Reverse(objs) // bindings first, so that the first request removes the permissions
	if o.DryRun == dryRunClient {
		return o.print(objs, dryRun(deleted))
	}
	c, err := o.Cluster.Client(o.ErrOut)
	if err != nil {
		return err
	}
	return hint(o.each(cmd.Context(), c, objs, change.remove), account)
}

// remove deletes the object and returns the result in kubectl's terms, or an error if the object has changed since it
// was read.
func (x change) remove(ctx context.Context, c client.Client) (string, error) {
	if x.live == nil {
		return notFound, nil
	}
	err := c.Delete(ctx, x.live, client.Preconditions{
		UID: ptr.To(x.live.GetUID()), ResourceVersion: ptr.To(x.live.GetResourceVersion()),
	})
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("delete %s: %w", describe(x.want), err)
	}
	return deleted, nil
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
		gvk := obj.GetObjectKind().GroupVersionKind()
		fmt.Fprintf(o.Out, "%s.%s/%s %s\n", strings.ToLower(gvk.Kind), gvk.Group, obj.GetName(), done(i))
	}
	return nil
}
