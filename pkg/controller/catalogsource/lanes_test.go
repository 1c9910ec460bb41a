package catalogsource

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/test/env/registry"
)

// paced is a registry with a delay before each bundle. If bundles is zero, it sends bundles endlessly.
type paced struct {
	each    time.Duration
	bundles int
}

func (p *paced) ListBundles(ctx context.Context, each func(*api.Bundle) error) error {
	for n := 0; p.bundles == 0 || n < p.bundles; n++ {
		select {
		case <-time.After(p.each):
		case <-ctx.Done():
			return ctx.Err()
		}
		b := &api.Bundle{PackageName: "a", ChannelName: "stable", CsvName: fmt.Sprintf("a.v%d", n), Version: "1.0.0"}
		if n > 0 {
			b.Replaces = fmt.Sprintf("a.v%d", n-1)
		}
		if err := each(b); err != nil {
			return err
		}
	}
	return nil
}

func (*paced) GetPackage(context.Context, string) (*api.Package, error) {
	return &api.Package{Name: "a", DefaultChannelName: "stable"}, nil
}

func (*paced) GetBundle(context.Context, string, string, string) (*api.Bundle, error) {
	return nil, nil
}

// listAlongside lists a registry while registries of other namespaces are listed repeatedly, and returns how long that
// takes.
func listAlongside(t *testing.T, namespace string, p *paced, namespaces []string, others *paced) (took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		lanes := newLoadLanes("remit")
		for _, other := range namespaces {
			go func() {
				for ctx.Err() == nil {
					_, _ = lanes.load(ctx, other, others, catalog.Kept{})
				}
			}()
		}
		synctest.Wait()
		start := time.Now()
		_, err = lanes.load(ctx, namespace, p, catalog.Kept{})
		took = time.Since(start)
		cancel()
		synctest.Wait()
	})
	return took, err
}

func twenty(format string) []string {
	out := make([]string, 20)
	for i := range out {
		out[i] = format
		if format == "" {
			out[i] = fmt.Sprintf("hostile-%d", i)
		}
	}
	return out
}

func TestSlowRegistriesDoNotBlockOthers(t *testing.T) {
	small := &paced{each: time.Millisecond, bundles: 10}
	trickling := &paced{each: 1900 * time.Millisecond}
	for name, namespaces := range map[string][]string{"of one namespace": twenty("hostile"), "of twenty namespaces": twenty("")} {
		for _, namespace := range []string{"neighbor", "remit"} {
			t.Run(name+", and namespace "+namespace, func(t *testing.T) {
				took, err := listAlongside(t, namespace, small, namespaces, trickling)
				require.NoError(t, err)
				require.Less(t, took, time.Minute)
			})
		}
	}
}

func TestTheGlobalNamespaceDoesNotWaitForTenants(t *testing.T) {
	took, err := listAlongside(t, "remit", &paced{each: time.Millisecond, bundles: 10}, twenty(""), &paced{each: time.Hour})
	require.NoError(t, err)
	require.Less(t, took, time.Second)
}

func TestASlowRegistryIsListedInTurns(t *testing.T) {
	took, err := listAlongside(t, "neighbor", &paced{each: time.Second, bundles: 20}, twenty(""), &paced{each: time.Second})
	require.NoError(t, err)
	require.Greater(t, took, time.Minute, "the registry yields to others")
}

// Listings wait for those of other namespaces, in addition to the five minutes that they may take.
func TestAListingHasItsTimeAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lanes := newLoadLanes("remit")
		for i := range tenantListings {
			time.AfterFunc(3*time.Second, func() {
				if turn, _, err := lanes.listings.tenants.Join(t.Context(), fmt.Sprintf("other-%d", i)); err == nil {
					time.AfterFunc(4*time.Minute, turn.Leave)
				}
			})
		}
		_, err := lanes.load(t.Context(), "a", &paced{each: time.Second, bundles: 200}, catalog.Kept{})
		require.NoError(t, err)
		_, err = lanes.load(t.Context(), "b", &paced{each: 10 * time.Second}, catalog.Kept{})
		var tooSlow slow
		require.ErrorAs(t, err, &tooSlow)
	})
}

func TestStopsASilentRegistry(t *testing.T) {
	_, err := listAlongside(t, "a", &paced{each: time.Hour}, nil, nil)
	require.ErrorIs(t, err, errIdle)
	_, err = listAlongside(t, "a", &paced{each: 10 * time.Second}, twenty(""), &paced{each: time.Second})
	require.ErrorIs(t, err, errYieldTimeout)
}

func TestASlowRegistryHasALongerDelay(t *testing.T) {
	e := &connection{}
	require.True(t, e.pauseAfter(errIdle))
	require.Equal(t, firstSlowReload, e.pause)
	require.True(t, e.pauseAfter(fmt.Errorf("list bundles: %w", errIdle)))
	require.Equal(t, 2*firstSlowReload, e.pause)
	require.False(t, e.pauseAfter(context.Canceled))
	require.False(t, e.pauseAfter(nil))
	require.Zero(t, e.pause)
}

// A catalog that takes long without yielding held the only slot for a minute at a time, again and again.
func TestACatalogThatDoesNotYieldComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lane := newParseLanes("remit", lateFor).turnsOf("a")
		begun := time.Now()
		stubborn, ctx, err := lane.Join(t.Context(), "a")
		require.NoError(t, err)
		go func() {
			<-ctx.Done()
			stubborn.Leave()
		}()
		other, _, err := lane.Join(t.Context(), "b")
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(ctx), errYieldTimeout)
		require.LessOrEqual(t, time.Since(begun), 15*time.Second)

		order := make(chan string, 2)
		for _, namespace := range []string{"a", "b"} { // "a" was served less recently, and asks first
			go func() {
				turn, _, err := lane.Join(t.Context(), namespace)
				if err == nil {
					order <- namespace
					turn.Leave()
				}
			}()
			synctest.Wait()
		}
		other.Leave()
		require.Equal(t, "b", <-order)
		require.Equal(t, "a", <-order)
	})
}

// A catalog of another namespace could keep each pull from being completed.
func TestWaitsForOtherNamespacesAreNotPartOfThePullTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lane := newParseLanes("remit", lateFor).turnsOf("a")
		other, _, err := lane.Join(t.Context(), "b")
		require.NoError(t, err)
		time.AfterFunc(2*pullTimeout, other.Leave)
		ctx, cancel := withPullTimeout(t.Context())
		defer cancel()
		turn, ctx, err := lane.Join(ctx, "a")
		require.NoError(t, err)
		<-ctx.Done()
		turn.Leave()
		require.ErrorIs(t, context.Cause(ctx), errPullTimeout)
	})
}

// Registries that send slowly took memory for each namespace, and must not keep others from being read either.
func TestRegistriesThatSendSlowlyUseHalfOfTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newImages(nil, nil, newBudget("global"), nil, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for n := range 2 * layerSlots {
			go func() {
				for turn := i.registryTurn(fmt.Sprint("slow", n)); ctx.Err() == nil && turn.Begin(ctx) == nil; turn.End() {
					time.Sleep(pullTimeout)
				}
			}()
		}
		synctest.Wait()
		require.Equal(t, layerSlots, i.layers.Waiting())
		require.NoError(t, i.registryTurn("global").Begin(t.Context()), "the global catalog namespace does not wait")
		time.Sleep(4*pullTimeout + time.Minute) // each was late once
		for n := range layerSlots / 2 {
			began := time.Now()
			honest := i.registryTurn(fmt.Sprint("honest", n))
			require.NoError(t, honest.Begin(t.Context()))
			require.NoError(t, honest.Begin(t.Context()), "it has begun")
			require.Zero(t, time.Since(began))
		}
		cancel()
		time.Sleep(2 * pullTimeout) // the others end
	})
}

// A large image is read to its end, however many others wait.
func TestReadingAnImageIsNotInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newImages(nil, nil, newBudget("global"), nil, clock.RealClock{})
		for n := range 2 * layerSlots {
			go func() {
				if turn, ctx, err := i.layers.Join(t.Context(), fmt.Sprint(n)); err == nil {
					time.Sleep(pullTimeout)
					assert.NoError(t, ctx.Err())
					turn.Leave()
				}
			}()
		}
		time.Sleep(3 * pullTimeout)
		require.Zero(t, i.layers.Waiting())
	})
}

func TestAnImageIsReadInATurn(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	w := running(t, catalogSource("image", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref}))
	w.images.budget.exempt = ""
	var slots []*registryTurn
	for n := range layerSlots {
		slots = append(slots, w.images.registryTurn(fmt.Sprint("slow", n)))
		require.NoError(t, slots[n].Begin(t.Context()))
	}
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("image")})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.images.layers.Waiting() == 1 }, time.Minute, time.Millisecond)
	require.Zero(t, s.Requests("GET /v2/catalog/manifests/"), "nothing is in memory while it waits")
	for _, slot := range slots {
		slot.End()
	}
	requireReady(t, w.afterCheck(t, "image"))
}

// When the program starts, catalogs that are stored on disk do not wait for registries of others that send slowly. They are only read if
// the registry still allows access to the image.
func TestAStoredCatalogNeedsNoTurnForItsRegistry(t *testing.T) {
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	image := catalogSource("image", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref})
	before := running(t, image.DeepCopy())
	before.images.budget.exempt = ""
	requireReady(t, before.afterCheck(t, "image"))
	loads := s.Requests("GET /v2/catalog/")

	w := running(t, image, catalogSource("other", image.Spec))
	w.images.disk, w.images.budget.exempt = before.Disk, ""
	for n := range layerSlots {
		require.NoError(t, w.images.registryTurn(fmt.Sprint("slow", n)).Begin(t.Context()))
	}
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("image")})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(w.woken) > 0 }, time.Minute, time.Millisecond)
	requireReady(t, w.reconcile(t, "image"))
	require.Equal(t, 1, w.offered(t, "image"))
	require.Equal(t, loads, s.Requests("GET /v2/catalog/"), "nothing is read from the registry")

	s.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	w.reconcile(t, "other")
	require.Eventually(t, func() bool { return w.images.layers.Waiting() == 1 }, time.Minute, time.Millisecond)
	_, ok := w.Store.Get(key("other"))
	require.False(t, ok)
}
