package csv

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// guarded is a client that acts as an account found in the cache. Before its first write it looks the
// account up again, live: a decision may rest on a cache, what is written may not. A visit that finds all
// as it should be then costs no request.
type guarded struct {
	client.Client
	lookup    scoped.Lookup
	namespace string
	account   scoped.Account
	confirmed bool
}

func (g *guarded) confirm(ctx context.Context) error {
	if g.confirmed {
		return nil
	}
	account, _, err := g.lookup.Account(ctx, g.namespace)
	if err != nil {
		return err
	}
	if account != g.account {
		return fmt.Errorf("the account of namespace %q changed from %s to %s", g.namespace, g.account.Key(), account.Key())
	}
	g.confirmed = true
	return nil
}

// Apply implements client.Writer.
func (g *guarded) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := g.confirm(ctx); err != nil {
		return err
	}
	return g.Client.Apply(ctx, obj, opts...)
}

// Create implements client.Writer.
func (g *guarded) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if err := g.confirm(ctx); err != nil {
		return err
	}
	return g.Client.Create(ctx, obj, opts...)
}

// Update implements client.Writer.
func (g *guarded) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if err := g.confirm(ctx); err != nil {
		return err
	}
	return g.Client.Update(ctx, obj, opts...)
}

// Patch implements client.Writer.
func (g *guarded) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := g.confirm(ctx); err != nil {
		return err
	}
	return g.Client.Patch(ctx, obj, patch, opts...)
}

// Delete implements client.Writer.
func (g *guarded) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if err := g.confirm(ctx); err != nil {
		return err
	}
	return g.Client.Delete(ctx, obj, opts...)
}
