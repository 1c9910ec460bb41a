package csv

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// guarded is a client that acts as an account found in the cache. Before its first write, and before it reads a Secret,
// it verifies against the API server that the OperatorGroup still names the account, and that it is not being deleted
// unless the cache shows this, because these operations must not rely on the cache. The ServiceAccount itself is not
// read: its token is requested for its UID. guarded reads single objects live as the controller identity, except
// Secrets, which only the account is allowed to read. Therefore, a reconcile that changes nothing and handles no
// certificates needs no token, and these reads are its only requests.
type guarded struct {
	client.Client
	// mint requests a token for the account, and returns a client that uses it.
	mint func(ctx context.Context, account scoped.Account) (client.Client, error)
	// lookup reads from the API server, and cached from the cache.
	lookup    scoped.Lookup
	cached    client.Reader
	namespace string
	account   scoped.Account
	// deleted is true if the OperatorGroup is being deleted according to the cache, so that the findings allow only removals.
	deleted   bool
	confirmed bool
}

func (g *guarded) confirm(ctx context.Context) error {
	if g.confirmed {
		return nil
	}
	group, err := g.lookup.OperatorGroup(ctx, g.namespace)
	if err := cmp.Or(scoped.CheckNotLeft(group), err); err != nil {
		return err
	}
	if err := scoped.CheckNotDeleted(group); err != nil && !g.deleted {
		return err
	}
	account, err := g.lookup.Default.Lookup(g.cached).AccountOf(ctx, group)
	if err != nil {
		return err
	}
	if account != g.account {
		return fmt.Errorf("the account of namespace %q changed from %s to %s", g.namespace, g.account.Key(), account.Key())
	}
	_, err = g.mint(ctx, account)
	g.confirmed = err == nil
	return err
}

// Get implements client.Reader.
func (g *guarded) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if !isSecret(obj) {
		return g.lookup.Reader.Get(ctx, key, obj, opts...)
	}
	if err := g.confirm(ctx); err != nil {
		return err
	}
	return g.Client.Get(ctx, key, obj, opts...)
}

func isSecret(obj client.Object) bool {
	if _, typed := obj.(*corev1.Secret); typed {
		return true
	}
	return obj.GetObjectKind().GroupVersionKind().GroupKind() == corev1.SchemeGroupVersion.WithKind("Secret").GroupKind()
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
