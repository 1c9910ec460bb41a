package existing

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Limits for reading.
const (
	// PageSize is the number of objects in memory at a time. An object can be about 1.5 MiB in size, and the API server
	// limits a page only by its number of objects.
	PageSize = 20
	// MaxObjects is the number of objects that one Read validates; further objects are ignored.
	MaxObjects = 10_000
	// ReadTimeout limits all Reads for a plan together: a bundle determines how expensive its schemas are, and other
	// plans are waiting.
	ReadTimeout = 30 * time.Second
)

// ErrSlow is the cause of a canceled context that makes Read return early with the violations found so far.
var ErrSlow = fmt.Errorf("not completed within %s", ReadTimeout)

// Read reads the objects of the CustomResourceDefinition with the client's identity, in the version of the Check. A
// version that is not served yet has no objects. If the context is canceled with the cause ErrSlow, Read returns the
// violations found so far without an error.
func (c *Check) Read(ctx context.Context, r client.Reader, crd *apiextensionsv1.CustomResourceDefinition) (*Result, error) {
	result := &Result{CRD: crd.Name, Version: c.Version}
	gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: c.Version, Kind: crd.Spec.Names.Kind}
	ended := func(doing string, err error) (*Result, error) {
		if errors.Is(context.Cause(ctx), ErrSlow) {
			result.Unread = true
			return result, nil
		}
		return nil, fmt.Errorf("%s %s: %w", doing, gvk.GroupKind(), reason(ctx, err))
	}
	read, page := 0, ""
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.List(ctx, list, client.Limit(PageSize), client.Continue(page))
		if meta.IsNoMatchError(err) {
			return result, nil
		}
		if err != nil {
			return ended("list", err)
		}
		for i := range list.Items {
			violations := c.Violations(ctx, list.Items[i].Object)
			if err := ctx.Err(); err != nil { // the violations may then be incomplete or wrong
				return ended("validate", err)
			}
			result.add(&list.Items[i], violations)
		}
		read, page = read+len(list.Items), list.GetContinue()
		if page == "" || read >= MaxObjects {
			result.Unread = page != ""
			return result, nil
		}
	}
}

// reason returns equal errors for repeated failures. An error that contains the URL of a page would be different each
// time, change the status that displays it, and thereby trigger another reconcile immediately.
func reason(ctx context.Context, err error) error {
	var request *url.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &request):
		return request.Err
	}
	return err
}
