package scopedcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// representation is how the objects of a kind are stored.
type representation int

const (
	typed representation = iota
	dynamicObjects
	metadataOnly
)

func representationOf(obj runtime.Object) representation {
	switch obj.(type) {
	case runtime.Unstructured:
		return dynamicObjects
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataOnly
	}
	return typed
}

// kindKey identifies a kind and a representation.
type kindKey struct {
	gvk schema.GroupVersionKind
	as  representation
}

// example returns an empty object of the kind.
func (k kindKey) example(scheme *runtime.Scheme) (client.Object, error) {
	var obj client.Object
	switch k.as {
	case dynamicObjects:
		obj = &unstructured.Unstructured{}
	case metadataOnly:
		obj = &metav1.PartialObjectMetadata{}
	case typed:
		made, err := scheme.New(k.gvk)
		if err != nil {
			return nil, err
		}
		var ok bool
		if obj, ok = made.(client.Object); !ok {
			return nil, fmt.Errorf("%s is not the kind of a client.Object", k.gvk)
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(k.gvk)
	return obj, nil
}

// requests contains the functions that list and watch a kind.
type requests struct {
	list  func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error)
	watch func(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error)
}

// connection creates the requests for all kinds.
type connection struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	params runtime.ParameterCodec
}

func newConnection(config *rest.Config, options Options) connection {
	quiet, scheme := *options.HTTPClient, options.Scheme
	if quiet.Transport == nil {
		quiet.Transport = http.DefaultTransport
	}
	quiet.Transport = quietTransport{RoundTripper: quiet.Transport, patience: options.limits.request}
	return connection{config: config, http: &quiet, scheme: scheme, codecs: serializer.NewCodecFactory(scheme), params: runtime.NewParameterCodec(scheme)}
}

// requests returns the requests for a kind and its mapping.
func (c connection) requests(key kindKey, mapping *meta.RESTMapping) (requests, error) {
	switch key.as {
	case dynamicObjects:
		made, err := dynamic.NewForConfigAndClient(c.config, c.http)
		if err != nil {
			return requests{}, err
		}
		return requestsOf(func(namespace string) listWatcher[*unstructured.UnstructuredList] {
			return made.Resource(mapping.Resource).Namespace(namespace)
		}), nil
	case metadataOnly:
		made, err := metadata.NewForConfigAndClient(metadata.ConfigFor(c.config), c.http)
		if err != nil {
			return requests{}, err
		}
		return requestsOf(func(namespace string) listWatcher[*metav1.PartialObjectMetadataList] {
			return made.Resource(mapping.Resource).Namespace(namespace)
		}), nil
	case typed:
	}
	return c.typedRequests(key.gvk, mapping.Resource.Resource)
}

// listWatcher is the part that client-go's dynamic and metadata clients have in common.
type listWatcher[list runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (list, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

func requestsOf[list runtime.Object](in func(namespace string) listWatcher[list]) requests {
	return requests{
		list: func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return in(namespace).List(ctx, options)
		},
		watch: func(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
			return in(namespace).Watch(ctx, options)
		},
	}
}

func (c connection) typedRequests(gvk schema.GroupVersionKind, resource string) (requests, error) {
	made, err := apiutil.RESTClientForGVK(gvk, false, false, c.config, c.codecs, c.http)
	if err != nil {
		return requests{}, err
	}
	listKind := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	return requests{
		list: func(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
			list, err := c.scheme.New(listKind)
			if err != nil {
				return nil, err
			}
			return list, made.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(&options, c.params).Do(ctx).Into(list)
		},
		watch: func(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
			return made.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(&options, c.params).Watch(ctx)
		},
	}, nil
}

// narrow restricts a request to a scope and to the kind's label selector.
func narrow(options *metav1.ListOptions, scope Scope, selector labels.Selector) {
	if scope.object {
		// With this selector, RBAC rules with resourceNames also allow the request.
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, scope.name).String()
	}
	if selector != nil {
		options.LabelSelector = selector.String()
	}
}

// errUnanswered is the error of a request to which the API server does not respond in time.
var errUnanswered = errors.New("the API server did not respond in time")

type arrivalsKey struct{}

// withArrivals returns a context for a request. The function arrived is called for each part of the response that is
// received.
func withArrivals(ctx context.Context, arrived func()) context.Context {
	return context.WithValue(ctx, arrivalsKey{}, arrived)
}

// quietTransport returns io.EOF to the reader of a response that is closed. Otherwise, the reflector would treat the error as a
// failure of the watch, and list again. It also ends requests to which the server does not respond in time. The response to a
// watch must begin in time; all other responses must be complete in time.
type quietTransport struct {
	http.RoundTripper
	patience time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t quietTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(t.patience, func() { cancel(errUnanswered) })
	response, err := t.RoundTripper.RoundTrip(r.WithContext(ctx))
	if r.URL.Query().Has("watch") {
		timer.Stop()
	}
	if r.Context().Err() == nil && ctx.Err() != nil {
		if err == nil {
			_ = response.Body.Close()
		}
		err = errUnanswered
	}
	if err != nil {
		timer.Stop()
		cancel(nil)
		return nil, err
	}
	arrived, _ := r.Context().Value(arrivalsKey{}).(func())
	response.Body = &quietBody{ReadCloser: response.Body, arrived: arrived, late: func() bool { return errors.Is(context.Cause(ctx), errUnanswered) }, end: func() {
		timer.Stop()
		cancel(nil)
	}}
	return response, nil
}

type quietBody struct {
	io.ReadCloser
	closed atomic.Bool
	// arrived is called for each part of the response that is received, unless it is nil.
	arrived func()
	// late reports whether the response was aborted because it was not received in time.
	late func() bool
	// end ends the request.
	end func()
}

// Read implements io.Reader.
func (b *quietBody) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if n > 0 && b.arrived != nil {
		b.arrived()
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
	case b.closed.Load():
		err = io.EOF
	case b.late():
		err = errUnanswered
	}
	return n, err
}

// Close implements io.Closer.
func (b *quietBody) Close() error {
	b.closed.Store(true)
	b.end() // first, because closing the body may wait for the end of the response
	return b.ReadCloser.Close()
}
