package apply

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read reads an object and reports whether it exists. An error includes the object's kind and name.
func Read(ctx context.Context, r client.Reader, key client.ObjectKey, obj client.Object) (bool, error) {
	err := r.Get(ctx, key, obj)
	if client.IgnoreNotFound(err) != nil {
		obj.SetNamespace(key.Namespace)
		obj.SetName(key.Name)
		return false, fmt.Errorf("get %s: %w", Describe(obj), err)
	}
	return err == nil, nil
}

// Delete deletes the object with the UID of obj, but not another object that has since replaced it. It returns nil if
// the object no longer exists.
func Delete(ctx context.Context, c client.Writer, obj client.Object, options ...client.DeleteOption) error {
	uid := obj.GetUID()
	err := c.Delete(ctx, obj, append(options, client.Preconditions{UID: &uid})...)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", Describe(obj), err)
	}
	return nil
}

// DeleteUnchanged is like Delete, but returns a conflict error if the object has changed since it was read.
func DeleteUnchanged(ctx context.Context, c client.Writer, obj client.Object) error {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	err := c.Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", Describe(obj), err)
	}
	return nil
}
