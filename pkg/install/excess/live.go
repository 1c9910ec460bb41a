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
// objects that the install has created may be removed. If they are too large together, which their users decide, it reads only some of
// them, other ones each time. The order remains the same. read is the number of objects that were read.
func Reread(ctx context.Context, live client.Reader, owns func(client.Object) bool, cached []Object) (out []client.Object, read int, err error) {
	all := make([]client.Object, len(cached))
	size := 0
	for i, at := range inAnyOrder(len(cached)) {
		obj, err := readAgain(ctx, live, cached[at].Object)
		if err != nil {
			return nil, 0, err
		}
		if obj != nil {
			size += sizeOf(obj)
		}
		if size > maxRead && i > 0 {
			break
		}
		read++
		if obj != nil && owns(obj) {
			all[at] = obj
		}
	}
	return slices.DeleteFunc(all, func(obj client.Object) bool { return obj == nil }), read, nil
}

// readAgain returns an object as it is in the API server, without its managed fields, or nil if it does not exist.
func readAgain(ctx context.Context, live client.Reader, cached client.Object) (client.Object, error) {
	obj, ok := cached.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an API object", cached)
	}
	err := live.Get(ctx, client.ObjectKeyFromObject(cached), obj)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get %s: %w", apply.Describe(cached), err)
	}
	if err != nil || obj.GetUID() != cached.GetUID() {
		return nil, nil
	}
	obj.SetManagedFields(nil)
	return obj, nil
}

func sizeOf(obj client.Object) int {
	if sized, ok := obj.(interface{ Size() int }); ok {
		return sized.Size()
	}
	return 0
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
