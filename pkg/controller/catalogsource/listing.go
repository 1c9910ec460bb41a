package catalogsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/remit-olm/remit/pkg/catalog"
	cataloggrpc "github.com/remit-olm/remit/pkg/catalog/grpc"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

// Limits for reading registries, in addition to those of package grpc.
const (
	// tenantListings and tenantBundles bound the number of tenants' registries that are listed, and asked for one bundle,
	// concurrently. globalLoads bounds the number of registries of the global catalog namespace that are read. They thereby
	// bound the memory of messages, each of which takes up to messageMemory until it is decoded. namespaceLoads bounds the first two
	// numbers for one tenant namespace.
	tenantListings, tenantBundles, globalLoads, namespaceLoads = 2, 3, 2, 1
	messageMemory                                              = 32 << 20
	// loadSlice is how long a registry is read while others wait, and yieldGrace how long its next message may then take.
	loadSlice, yieldGrace = 2 * time.Second, 2 * time.Second
	// bundleSlice is how long a tenant's registry may take for a bundle while others wait before its namespace counts as late,
	// and bundleGrace how much longer until the call is ended.
	bundleSlice, bundleGrace = time.Second, 3 * time.Second
	// lateFor is how long a tenant namespace with a slow registry comes after others.
	lateFor = 5 * time.Minute
	// idleTimeout bounds the time that a registry may take to send a message.
	idleTimeout = 15 * time.Second
)

const (
	errIdle   = slow("the registry took longer than 15s to send a message")
	errNoTurn = slow("the registry did not send a bundle within 30s, or other registries were read for as long")
)

// newLoadLanes returns the lanes for listings and those for reading bundles. Tenants' bundles do not wait for listings.
func newLoadLanes(global string) *loadLanes {
	listings := &lanes{
		reserved: global,
		global:   &turns.Turns{Slots: globalLoads, Share: globalLoads, Slice: loadSlice, Grace: yieldGrace, Late: errYieldTimeout},
		tenants:  &turns.Turns{Slots: tenantListings, Share: namespaceLoads, Slice: loadSlice, Grace: yieldGrace, Late: errYieldTimeout, LateFor: lateFor, Promptly: yieldGrace},
	}
	bundles := &lanes{
		reserved: global,
		global:   listings.global,
		tenants:  &turns.Turns{Slots: tenantBundles, Share: namespaceLoads, Slice: bundleSlice, Grace: bundleGrace, Late: errYieldTimeout, LateFor: lateFor},
	}
	return &loadLanes{listings: listings, bundles: bundles}
}

// loadLanes contains the lanes for reading registries.
type loadLanes struct{ listings, bundles *lanes }

// listing is a RegistryClient that makes requests only during its turn. It is stopped if a message takes too long.
type listing struct {
	cataloggrpc.RegistryClient
	turn *turns.Turn
}

// load waits for a turn, and then lists a registry.
func (l *loadLanes) load(ctx context.Context, namespace string, client cataloggrpc.RegistryClient, kept catalog.Kept) (*catalog.Snapshot, error) {
	turn, ctx, err := l.listings.turnsOf(namespace).Join(ctx, namespace)
	if err != nil {
		return nil, err
	}
	defer turn.Leave()
	snap, err := cataloggrpc.Load(ctx, &listing{client, turn}, kept)
	if err != nil {
		return nil, asSlow(ctx, err)
	}
	reader := l.reader(namespace, client)
	snap.Reader, snap.Displays = reader, reader
	return snap, nil
}

// reader returns a reader of single bundles, whoever uses it. Its calls take turns.
func (l *loadLanes) reader(namespace string, client cataloggrpc.RegistryClient) *cataloggrpc.Reader {
	return &cataloggrpc.Reader{Client: &calling{client, l.bundles.turnsOf(namespace), namespace}}
}

// calling is a RegistryClient that waits for a turn before it requests a bundle. The turn cannot yield in the middle of a
// message, and so is over if the message takes longer than the slice and the grace while others wait.
type calling struct {
	cataloggrpc.RegistryClient
	turns     *turns.Turns
	namespace string
}

// GetBundle implements RegistryClient. Namespaces that request bundles of a global catalog take turns, too. The time that
// it waits for its turn counts toward the time for a call, but not toward the time that its caller spends (turns.Waits).
func (c *calling) GetBundle(ctx context.Context, pkg, channel, name string) (*api.Bundle, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cataloggrpc.CallTimeout, errNoTurn)
	defer cancel()
	turn, ctx, err := c.turns.Join(ctx, cmp.Or(catalog.Requester(ctx), c.namespace))
	if err != nil {
		return nil, err
	}
	defer turn.Leave()
	bundle, err := c.RegistryClient.GetBundle(ctx, pkg, channel, name)
	if err != nil {
		return nil, asSlow(ctx, err)
	}
	return bundle, nil
}

// asSlow returns the reason why a listing was stopped if the registry was too slow, and otherwise err.
func asSlow(ctx context.Context, err error) error {
	var why slow
	if errors.As(context.Cause(ctx), &why) {
		return why
	}
	if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
		return fmt.Errorf("%w: %w", slow("listing the registry took too long"), err)
	}
	return err
}

// ListBundles implements RegistryClient.
func (l *listing) ListBundles(ctx context.Context, each func(*api.Bundle) error) error {
	timer := time.AfterFunc(idleTimeout, func() { l.turn.Stop(errIdle) })
	defer timer.Stop()
	return l.RegistryClient.ListBundles(ctx, func(b *api.Bundle) error {
		timer.Stop()
		err := each(b)
		if err == nil {
			err = l.turn.Yield(ctx)
		}
		timer.Reset(idleTimeout)
		return err
	})
}

// GetPackage implements RegistryClient.
func (l *listing) GetPackage(ctx context.Context, name string) (*api.Package, error) {
	if err := l.turn.Yield(ctx); err != nil {
		return nil, err
	}
	timer := time.AfterFunc(idleTimeout, func() { l.turn.Stop(errIdle) })
	defer timer.Stop()
	return l.RegistryClient.GetPackage(ctx, name)
}
