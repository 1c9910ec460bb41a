package catalogsource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/remit-olm/remit/pkg/catalog"
	cataloggrpc "github.com/remit-olm/remit/pkg/catalog/grpc"
)

// Limits on the listing of registries, beside those of package grpc.
const (
	// tenantLoads and globalLoads bound how many registries are listed at once, of tenants and of the global catalog namespace,
	// and with it the memory that takes; namespaceLoads those of one tenant.
	tenantLoads, globalLoads, namespaceLoads = 4, 2, 2
	// loadSlice is how long a registry is listed while others wait, yieldGrace how long its next message may then take.
	loadSlice, yieldGrace = 2 * time.Second, 2 * time.Second
	// idleTimeout bounds how long a message may take while nobody waits.
	idleTimeout = 15 * time.Second
)

const errIdle = slow("it takes longer than 15s for a message")

func newLoadLanes(global string) *lanes {
	return &lanes{
		reserved: global,
		global:   &turns{slots: globalLoads, share: globalLoads, slice: loadSlice, grace: yieldGrace},
		tenants:  &turns{slots: tenantLoads, share: namespaceLoads, slice: loadSlice, grace: yieldGrace},
	}
}

// listing is a RegistryClient that is asked while it is its turn, and stopped where a message takes too long.
type listing struct {
	cataloggrpc.RegistryClient
	turn *turn
}

// load lists a registry.
func (l *lanes) load(ctx context.Context, namespace string, client cataloggrpc.RegistryClient, room cataloggrpc.Room) (*catalog.Snapshot, error) {
	turn, ctx, err := l.of(namespace).join(ctx, namespace)
	if err != nil {
		return nil, err
	}
	defer turn.leave()
	snap, err := cataloggrpc.Load(ctx, &listing{client, turn}, room)
	if err != nil {
		return nil, ofSlow(ctx, err)
	}
	snap.Reader = &cataloggrpc.Reader{Client: client}
	return snap, nil
}

// ofSlow names what ended a listing that took too long.
func ofSlow(ctx context.Context, err error) error {
	var why slow
	if errors.As(context.Cause(ctx), &why) {
		return why
	}
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		return fmt.Errorf("%w: %w", slow("it takes too long"), err)
	}
	return err
}

// ListBundles implements RegistryClient.
func (l *listing) ListBundles(ctx context.Context, each func(*api.Bundle) error) error {
	timer := time.AfterFunc(idleTimeout, func() { l.turn.stop(errIdle) })
	defer timer.Stop()
	return l.RegistryClient.ListBundles(ctx, func(b *api.Bundle) error {
		timer.Stop()
		err := each(b)
		if err == nil {
			err = l.turn.yield(ctx)
		}
		timer.Reset(idleTimeout)
		return err
	})
}

// GetPackage implements RegistryClient.
func (l *listing) GetPackage(ctx context.Context, name string) (*api.Package, error) {
	if err := l.turn.yield(ctx); err != nil {
		return nil, err
	}
	timer := time.AfterFunc(idleTimeout, func() { l.turn.stop(errIdle) })
	defer timer.Stop()
	return l.RegistryClient.GetPackage(ctx, name)
}
