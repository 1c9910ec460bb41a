package ensure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
)

// fieldManager is the field manager of the commands.
const fieldManager = "kubectl-remit"

// Results, in kubectl's terms.
const (
	Created    = "created"
	Configured = "configured"
	Unchanged  = "unchanged"
	Deleted    = "deleted"
	NotFound   = "not found"
)

// Change is a wanted object and its current state. Gather returns Changes.
type Change struct {
	Want client.Object
	// Live is nil if the object does not exist.
	Live client.Object
	// Complete is set if Live needs no change.
	Complete bool
}

// Gather reads the current state of the objects. If there are objects that the command must not change, it returns one
// error that lists all of them, so nothing is written.
func Gather(ctx context.Context, c client.Client, command string, objs []client.Object) ([]Change, error) {
	changes := make([]Change, 0, len(objs))
	var problems []error
	for _, want := range objs {
		x := Change{Want: want}
		live, err := read(ctx, c, want)
		if err != nil {
			return nil, err
		}
		if live != nil {
			x.Live = live
			if x.Complete, err = compare(command, live, want); err != nil {
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
		return nil, fmt.Errorf("get %s: %w", apply.Describe(want), err)
	}
	live.GetObjectKind().SetGroupVersionKind(want.GetObjectKind().GroupVersionKind())
	return live, nil
}

// Make creates the object or adds the missing subjects, and returns the result in kubectl's terms.
func (x Change) Make(ctx context.Context, c client.Client) (string, error) {
	switch {
	case x.Live == nil:
		obj, _ := x.Want.DeepCopyObject().(client.Object)
		if err := c.Create(ctx, obj, client.FieldOwner(fieldManager)); err != nil {
			return "", fmt.Errorf("create %s: %w", apply.Describe(x.Want), err)
		}
		return Created, nil
	case x.Complete:
		return Unchanged, nil
	}
	if !copySubjects(x.Live, x.Want) { // compare reports only bindings as incomplete
		return "", fmt.Errorf("%T is not a binding", x.Live)
	}
	if err := c.Update(ctx, x.Live, client.FieldOwner(fieldManager)); err != nil {
		return "", fmt.Errorf("update %s: %w", apply.Describe(x.Want), err)
	}
	return Configured, nil
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

// Remove deletes the object and returns the result in kubectl's terms, or an error if the object has changed since it
// was read.
func (x Change) Remove(ctx context.Context, c client.Client) (string, error) {
	if x.Live == nil {
		return NotFound, nil
	}
	err := c.Delete(ctx, x.Live, client.Preconditions{
		UID: ptr.To(x.Live.GetUID()), ResourceVersion: ptr.To(x.Live.GetResourceVersion()),
	})
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("delete %s: %w", apply.Describe(x.Want), err)
	}
	return Deleted, nil
}

// Each changes the objects one after another and returns the results, in kubectl's terms. If a change fails, Each makes no further ones,
// because a binding must not precede its role. The results are then those of the changes before it, and the error names these and the
// objects that were not tried.
func Each(ctx context.Context, c client.Client, changes []Change, act func(Change, context.Context, client.Client) (string, error)) ([]string, error) {
	done := make([]string, 0, len(changes))
	for i, x := range changes {
		result, err := act(x, ctx, c)
		if err != nil {
			return done, fmt.Errorf("%w\n%s", err, interrupted(changes, i, done))
		}
		done = append(done, result)
	}
	return done, nil
}

// interrupted describes the changes before and after one that failed.
func interrupted(changes []Change, failed int, done []string) string {
	var before, after []string
	for i, result := range done {
		before = append(before, Resource(changes[i].Want)+" "+result)
	}
	for _, x := range changes[failed+1:] {
		after = append(after, Resource(x.Want))
	}
	return fmt.Sprintf("Done before: %s. Not tried: %s. Run the command again when the cause is removed", list(before), list(after))
}

func list(entries []string) string { return cmp.Or(strings.Join(entries, ", "), "nothing") }

// Resource returns the resource and the name of an object, as kubectl prints them.
func Resource(obj client.Object) string {
	gvk := obj.GetObjectKind().GroupVersionKind()
	return fmt.Sprintf("%s.%s/%s", strings.ToLower(gvk.Kind), gvk.Group, obj.GetName())
}
