package excess

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
)

// maxRead is the size of the objects that one Reread returns, in bytes. Decoded, they take several times as much memory.
const maxRead = 8 << 20

// Reread reads objects from the API server. It omits those that no longer exist, or that owns does not accept: only
// objects that the install has created may be removed. It also omits the last ones if they are too large together, which their users decide.
func Reread(ctx context.Context, live client.Reader, owns func(client.Object) bool, cached []Object) ([]client.Object, error) {
	var out []client.Object
	size := 0
	for _, o := range cached {
		obj, ok := o.Object.DeepCopyObject().(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is not an API object", o.Object)
		}
		err := live.Get(ctx, client.ObjectKeyFromObject(o.Object), obj)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get %s: %w", apply.Describe(o.Object), err)
		}
		if err != nil || obj.GetUID() != o.Object.GetUID() || !owns(obj) {
			continue
		}
		obj.SetManagedFields(nil)
		if sized, ok := obj.(interface{ Size() int }); ok {
			size += sized.Size()
		}
		if size > maxRead && len(out) > 0 {
			return out, nil
		}
		out = append(out, obj)
	}
	return out, nil
}

// KeptError reports that an object is being deleted, but remains in effect because of its finalizers.
type KeptError struct {
	Object client.Object
}

func (e *KeptError) Error() string {
	return apply.Describe(e.Object) + " was deleted, but remains in effect until its finalizers are removed"
}

// CheckFinalizers returns a *KeptError if an object is being deleted, or nil.
func CheckFinalizers(obj client.Object) error {
	if obj.GetDeletionTimestamp() == nil {
		return nil
	}
	return &KeptError{Object: obj}
}

// Command returns the shell command that removes an object, or its finalizers if it is being deleted.
func Command(obj client.Object) string {
	if obj.GetDeletionTimestamp() == nil {
		return apply.DeleteCommand(obj)
	}
	return apply.Command("patch", obj, `--type=merge -p '{"metadata":{"finalizers":null}}'`)
}

// LiveRules returns the rules of roles according to the API server.
func LiveRules(ctx context.Context, live client.Reader) rbac.RoleRules {
	return func(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
		if ref.Kind == kindClusterRole {
			role := &rbacv1.ClusterRole{}
			err := live.Get(ctx, client.ObjectKey{Name: ref.Name}, role)
			return role.Rules, err
		}
		role := &rbacv1.Role{}
		err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, role)
		return role.Rules, err
	}
}

// maxLines and maxLineBytes bound what Missing returns of all objects: there can be thousands, and a message shows a few KB.
const (
	maxLines     = 1_000
	maxLineBytes = 512 << 10
)

// Missing describes the permissions that the account is missing, as sorted lines in the form "in namespace <ns> <rule>" or
// "cluster-wide <rule>". It splits rules into lines of at most limit bytes where possible. After 1,000 lines, or 512 KiB, it omits
// the other objects.
func Missing(objs []Object, limit int) []string {
	var out []string
	size := 0
	for _, o := range objs {
		lines := rbac.Lines(o.Scope, o.Missing, limit)
		for _, webhook := range o.Intercepts {
			lines = append(lines, "those to read and write what "+webhook+" intercepts")
		}
		if o.Unevaluated {
			lines = append(lines, rbac.Where(o.Scope)+" more combinations than Remit evaluates")
		}
		for _, line := range lines {
			if size += len(line); len(out) == maxLines || size > maxLineBytes {
				return compacted(out)
			}
			out = append(out, line)
		}
	}
	return compacted(out)
}

func compacted(lines []string) []string {
	slices.Sort(lines)
	return slices.Compact(lines)
}

// Names returns the kinds and names of the objects.
func Names(objs []Object) []string {
	var out []string
	for _, o := range objs {
		out = append(out, apply.Describe(o.Object))
	}
	return out
}
