package apply

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read reads an object and reports whether it exists. Its error names the object.
func Read(ctx context.Context, r client.Reader, key client.ObjectKey, obj client.Object) (bool, error) {
	err := r.Get(ctx, key, obj)
	if client.IgnoreNotFound(err) != nil {
		obj.SetNamespace(key.Namespace)
		obj.SetName(key.Name)
		return false, fmt.Errorf("get %s: %w", Describe(obj), err)
	}
	return err == nil, nil
}

// Delete deletes exactly the object that was read. It ignores objects that no longer exist.
func Delete(ctx context.Context, c client.Writer, obj client.Object, options ...client.DeleteOption) error {
	uid := obj.GetUID()
	err := c.Delete(ctx, obj, append(options, client.Preconditions{UID: &uid})...)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", Describe(obj), err)
	}
	return nil
}
