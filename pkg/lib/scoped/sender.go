package scoped

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// All accounts share one controller-runtime client, because the codecs and REST clients of one client per account use more
// memory than everything else that belongs to an account. The shared client has no credentials. It sends a request as the
// account in the request's context, which only accountClient sets, and never without one.

// senderKey is the key of the context value that sends the requests as an account.
type senderKey struct{}

var errNoSender = errors.New("the request is not sent because it belongs to no account")

// dispatcher is the transport of the shared client.
type dispatcher struct{}

// RoundTrip implements http.RoundTripper.
func (dispatcher) RoundTrip(req *http.Request) (*http.Response, error) {
	sender, ok := req.Context().Value(senderKey{}).(http.RoundTripper)
	if !ok {
		return nil, closeBody(req, errNoSender)
	}
	return sender.RoundTrip(req)
}

// accountClient is the client of one account: the shared client, with the account in the context of each call. A method that
// it does not override therefore sends nothing.
type accountClient struct {
	client.WithWatch
	sender http.RoundTripper
}

// as returns a context whose requests are sent as the account, even if the given context belongs to another account.
func (c *accountClient) as(ctx context.Context) context.Context {
	return context.WithValue(ctx, senderKey{}, c.sender)
}

// Get implements client.Client.
func (c *accountClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.WithWatch.Get(c.as(ctx), key, obj, opts...)
}

// List implements client.Client.
func (c *accountClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.WithWatch.List(c.as(ctx), list, opts...)
}

// Watch implements client.WithWatch.
func (c *accountClient) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	return c.WithWatch.Watch(c.as(ctx), list, opts...)
}

// Apply implements client.Client.
func (c *accountClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.WithWatch.Apply(c.as(ctx), obj, opts...)
}

// Create implements client.Client.
func (c *accountClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.WithWatch.Create(c.as(ctx), obj, opts...)
}

// Delete implements client.Client.
func (c *accountClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return c.WithWatch.Delete(c.as(ctx), obj, opts...)
}

// Update implements client.Client.
func (c *accountClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.WithWatch.Update(c.as(ctx), obj, opts...)
}

// Patch implements client.Client.
func (c *accountClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.WithWatch.Patch(c.as(ctx), obj, patch, opts...)
}

// DeleteAllOf implements client.Client.
func (c *accountClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	return c.WithWatch.DeleteAllOf(c.as(ctx), obj, opts...)
}

// Status implements client.Client.
func (c *accountClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *accountClient) SubResource(name string) client.SubResourceClient {
	return &accountSubResource{SubResourceClient: c.WithWatch.SubResource(name), as: c.as}
}

type accountSubResource struct {
	client.SubResourceClient
	as func(context.Context) context.Context
}

// Get implements client.SubResourceClient.
func (c *accountSubResource) Get(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceGetOption) error {
	return c.SubResourceClient.Get(c.as(ctx), obj, sub, opts...)
}

// Create implements client.SubResourceClient.
func (c *accountSubResource) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	return c.SubResourceClient.Create(c.as(ctx), obj, sub, opts...)
}

// Update implements client.SubResourceClient.
func (c *accountSubResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return c.SubResourceClient.Update(c.as(ctx), obj, opts...)
}

// Patch implements client.SubResourceClient.
func (c *accountSubResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.SubResourceClient.Patch(c.as(ctx), obj, patch, opts...)
}

// Apply implements client.SubResourceClient.
func (c *accountSubResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return c.SubResourceClient.Apply(c.as(ctx), obj, opts...)
}
