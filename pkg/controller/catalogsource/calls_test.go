package catalogsource

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	cataloggrpc "github.com/remit-olm/remit/pkg/catalog/grpc"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

// stalling is a registry that withholds the end of each message. It counts the calls that are in progress.
type stalling struct {
	paced
	calls, most *atomic.Int64
}

func (s *stalling) stall(ctx context.Context) error {
	s.most.Store(max(s.most.Load(), s.calls.Add(1)))
	defer s.calls.Add(-1)
	<-ctx.Done()
	return ctx.Err()
}

func (s *stalling) ListBundles(ctx context.Context, _ func(*api.Bundle) error) error {
	return s.stall(ctx)
}

func (s *stalling) GetBundle(ctx context.Context, _, _, _ string) (*api.Bundle, error) {
	ctx, cancel := context.WithTimeout(ctx, cataloggrpc.CallTimeout)
	defer cancel()
	return nil, s.stall(ctx)
}

// prompt is a registry that sends each bundle within a second.
type prompt struct{ paced }

func (*prompt) GetBundle(ctx context.Context, pkg, _, name string) (*api.Bundle, error) {
	select {
	case <-time.After(time.Second):
		return &api.Bundle{PackageName: pkg, CsvName: name, CsvJson: "{}"}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// quick is a registry that sends each bundle within 20 milliseconds.
type quick struct{ paced }

func (*quick) GetBundle(_ context.Context, pkg, _, name string) (*api.Bundle, error) {
	time.Sleep(20 * time.Millisecond)
	return &api.Bundle{PackageName: pkg, CsvName: name, CsvJson: "{}"}, nil
}

// A read waited for one turn of each namespace whose registry stalls, and for listings.
func TestAPromptRegistryWaitsForOneStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		lanes := newLoadLanes("remit")
		for i := range 20 {
			namespace, registry := fmt.Sprintf("hostile-%d", i), &stalling{calls: &atomic.Int64{}, most: &atomic.Int64{}}
			go func() {
				for ctx.Err() == nil {
					_, _ = lanes.reader(namespace, registry).Content(ctx, "a", "stable", "a.v1")
				}
			}()
			go func() {
				for ctx.Err() == nil {
					_, _ = lanes.load(ctx, "listed-"+namespace, &paced{each: 1900 * time.Millisecond}, catalog.Kept{})
				}
			}()
		}
		time.Sleep(time.Minute)
		measured, waits := turns.Measure(ctx)
		for range 20 {
			_, err := lanes.reader("neighbor", &quick{}).Content(measured, "a", "stable", "a.v1")
			require.NoError(t, err)
		}
		require.Less(t, waits.Total(), bundleSlice+bundleGrace+time.Second)
		cancel()
	})
}

// Messages of 33 MiB for InstallPlans, Subscriptions, PackageManifests and listings together took 2 GB.
func TestAllCallsToRegistriesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		lanes, calls, most := newLoadLanes("remit"), &atomic.Int64{}, &atomic.Int64{}
		for i := range 5 {
			namespace, registry := fmt.Sprintf("hostile-%d", i), &stalling{calls: calls, most: most}
			repeat := func(call func() error) {
				for ctx.Err() == nil {
					_ = call()
				}
			}
			reader := lanes.reader(namespace, registry)
			go repeat(func() error { _, err := reader.Content(ctx, "a", "stable", "a.v1"); return err })
			go repeat(func() error { _, err := reader.BundleDisplay(ctx, "a", "stable", "a.v1"); return err })
			go repeat(func() error { _, err := lanes.load(ctx, namespace, registry, catalog.Kept{}); return err })
		}
		synctest.Wait()
		for range 5 {
			start := time.Now()
			content, err := lanes.reader("neighbor", &prompt{}).Content(ctx, "a", "stable", "a.v1")
			require.NoError(t, err)
			require.Len(t, content.Manifests, 1)
			require.Less(t, time.Since(start), 2*(loadSlice+yieldGrace+time.Second), "calls that stall are ended")
		}
		start := time.Now()
		_, err := lanes.reader("remit", &prompt{}).Content(ctx, "a", "stable", "a.v1")
		require.NoError(t, err)
		require.Less(t, time.Since(start), 2*time.Second, "global catalogs do not wait for tenants")
		require.EqualValues(t, tenantListings+tenantBundles, most.Load())
		cancel()
		synctest.Wait()
		require.Zero(t, calls.Load())
	})
}

func TestACallThatGetsNoTurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lanes := newLoadLanes("remit")
		for range namespaceLoads {
			turn, _, err := lanes.bundles.tenants.Join(t.Context(), "t1")
			require.NoError(t, err)
			defer turn.Leave()
		}
		start := time.Now()
		_, err := lanes.reader("t1", &prompt{}).Content(t.Context(), "a", "stable", "a.v1")
		require.ErrorIs(t, err, errNoTurn)
		require.Equal(t, cataloggrpc.CallTimeout, time.Since(start))
		_, err = lanes.reader("t2", &prompt{}).Content(t.Context(), "a", "stable", "a.v1")
		require.NoError(t, err)
	})
}

// Users of a global catalog take turns with each other.
func TestCallsForOtherNamespacesUseTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lanes := newLoadLanes("remit")
		lanes.bundles.global.Share = 1
		turn, _, err := lanes.bundles.global.Join(t.Context(), "t1")
		require.NoError(t, err)
		defer turn.Leave()
		reader := lanes.reader("remit", &prompt{})
		_, err = reader.Content(catalog.RequestedBy(t.Context(), "t2"), "a", "stable", "a.v1")
		require.NoError(t, err)
		_, err = reader.Content(catalog.RequestedBy(t.Context(), "t1"), "a", "stable", "a.v1")
		require.ErrorIs(t, err, errNoTurn)
	})
}

// While a listing waits for its turn, gRPC keeps what the registry sends.
func TestUnreadMessagesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := newBudget("global")
		c, key := newConnections(bound, func(types.NamespacedName) {}), types.NamespacedName{Namespace: "t1", Name: "a"}
		e := &connection{holder: holder{fromAddress, key, 1}}
		c.byKey[key] = e
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.list(ctx, key, e, &paced{each: 10 * time.Second})
		}()
		time.Sleep(11 * time.Second)
		require.Greater(t, bound.holds(e.holder), int64(cataloggrpc.UnreadBytes))
		cancel()
		<-done
		_, err := c.list(t.Context(), key, e, &paced{bundles: 1})
		require.NoError(t, err)
		require.Less(t, bound.holds(e.holder), int64(64<<10))
	})
}

func TestInheritedContentIsReadInTurns(t *testing.T) {
	lanes, old := newLoadLanes("remit"), &connection{content: content{good: &catalog.Snapshot{}}}
	next, err := newConnection("", "127.0.0.1:1")
	require.NoError(t, err)
	t.Cleanup(func() { _ = next.conn.Close() })
	next.holder.key.Namespace = "t1"
	next.inherit(old, lanes)
	reader, ok := next.good.Reader.(*cataloggrpc.Reader)
	require.True(t, ok)
	require.Equal(t, &calling{next.conn, lanes.bundles.tenants, "t1"}, reader.Client)
	require.Same(t, reader, next.good.Displays)
}
