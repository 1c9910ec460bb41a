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

// Limits of what is read.
const (
	// PageSize is how many objects are in memory at once. Each may have about a mebibyte and a half, and of a page
	// only the number can be asked for.
	PageSize = 20
	// MaxObjects is how many one Read reads; of more than these only the first are looked at.
	MaxObjects = 10_000
	// ReadTimeout is how long all Reads for a plan together may take: a bundle chooses how much work its schemas
	// make, and others wait.
	ReadTimeout = 30 * time.Second
)

// ErrSlow is the cause of a context that ends a Read early, with what was found until then.
var ErrSlow = fmt.Errorf("not done within %s", ReadTimeout)

// Read reads the objects of the CustomResourceDefinition as the client's identity, in the version of the Check. A
// version that is not served yet has none. How long it may take is the context's: ErrSlow as its cause is no error.
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
			if err := ctx.Err(); err != nil { // then they are not all of them, nor only them
				return ended("look at", err)
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

// reason is the same for the same failure: an error with the address of a page, which is another one each time,
// would change the status that it is shown in, and that would be a reason to try again at once.
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
