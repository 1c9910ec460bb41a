package clusterextension

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// found is a client.Reader of objects that were read before. Kinds that the controller identity watches are read from its
// cache.
type found struct {
	client.Client
	objects []*unstructured.Unstructured
}

// Get implements client.Reader.
func (f *found) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, err := f.kindOf(obj)
	if err != nil {
		return err
	}
	if watchedByController(apply.Reference(gvk, "", "")) != nil {
		return f.Client.Get(ctx, key, obj, opts...) //nolint:wrapcheck // a wrapper returns the original error
	}
	for _, have := range f.objects {
		if have.GroupVersionKind() == gvk && client.ObjectKeyFromObject(have) == key {
			return apply.Decode(have, obj)
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
}

// List implements client.Reader. It ignores the options for kinds that are not watched: the caller examines each object.
func (f *found) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := f.kindOf(list)
	if err != nil {
		return err
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	if watchedByController(apply.Reference(gvk, "", "")) != nil {
		return f.Client.List(ctx, list, opts...) //nolint:wrapcheck // a wrapper returns the original error
	}
	var items []runtime.Object
	for _, have := range f.objects {
		if have.GroupVersionKind() != gvk {
			continue
		}
		item, err := f.Scheme().New(gvk)
		if err != nil {
			return fmt.Errorf("read %s: %w", gvk.Kind, err)
		}
		if err := apply.Decode(have, item); err != nil {
			return err
		}
		items = append(items, item)
	}
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("read %s: %w", gvk.Kind, err)
	}
	return nil
}

func (f *found) kindOf(obj runtime.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(obj, f.Scheme())
	if err != nil {
		return gvk, fmt.Errorf("determine the kind of %T: %w", obj, err)
	}
	return gvk, nil
}
