package kit

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Matching lists the cached objects that match, as requests. match must not modify an object.
func Matching[T client.Object](ctx context.Context, cached client.Reader, list client.ObjectList, match func(T) bool, opts ...client.ListOption) []ctrl.Request {
	if err := cached.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache is not synced yet: its first list enqueues all objects
	}
	var out []ctrl.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error { // an error is that of the function
		if obj, ok := item.(T); ok && match(obj) {
			out = append(out, Request(obj.GetNamespace(), obj.GetName()))
		}
		return nil
	})
	return out
}

// Any matches all objects.
func Any[T client.Object](T) bool { return true }

// Request is the request for an object.
func Request(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
