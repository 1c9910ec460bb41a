package resolver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

// lazy is a reader that takes a certain time for each bundle.
type lazy struct {
	catalog.ContentReader
	takes time.Duration
	calls int
	asked string
}

func (l *lazy) Content(ctx context.Context, pkg, channel, name string) (*catalog.Content, error) {
	l.calls++
	l.asked = catalog.Requester(ctx)
	select {
	case <-time.After(l.takes):
		return l.ContentReader.Content(ctx, pkg, channel, name)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lazily returns an Input whose catalog takes a certain time for each bundle.
func lazily(takes time.Duration) (Input, *lazy) {
	in := input()
	snapshot := published("ns")
	reader := &lazy{ContentReader: snapshot.Reader, takes: takes}
	snapshot.Reader = reader
	store := &catalog.Store{}
	store.Put(snapshot)
	in.Catalogs, in.Reading = store, &Reading{}
	return in, reader
}

func TestReadingBundlesHasATotalTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, reader := lazily(20 * time.Second)
		began := time.Now()
		plan, _, _, err := ResolveSteps(t.Context(), in, chosen(t, "ns/cat/op/stable/"))
		require.NoError(t, err)
		require.Equal(t, "ns", reader.asked, "the reader knows for which namespace it reads")
		require.Equal(t, 20*time.Second, time.Since(began), "each bundle is read once")
		require.True(t, in.Reading.Begun())
		require.False(t, in.Reading.IsOver())
		const text = `bundle content: bundle "op.v2" of catalogsource ns/cat: reading bundles from catalogs takes longer than 30s in total; this will be retried`
		for range 20 {
			_, _, err = StepsOf(t.Context(), in, plan)
			require.EqualError(t, err, text)
			var unread *ReadError
			require.ErrorAs(t, err, &unread, "the read is retried")
			_, err = in.Keep(t.Context(), plan, 1<<20)
			require.EqualError(t, err, text)
		}
		require.Equal(t, ReadTime, time.Since(began))
		require.Equal(t, 2, reader.calls, "registries are not called after that")

		in.Reading = &Reading{}
		_, _, err = StepsOf(t.Context(), in, plan)
		require.NoError(t, err, "another reconcile has its own time")
	})
}

func TestTheEndOfAReconcileIsNotTheEndOfItsReadTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := lazily(20 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, _, err := ResolveSteps(ctx, in, chosen(t, "ns/cat/op/stable/"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, in.Reading.IsOver())
	})
}

// guarded is a reader whose calls take turns.
type guarded struct {
	*lazy
	turns *turns.Turns
}

func (g *guarded) Content(ctx context.Context, pkg, channel, name string) (*catalog.Content, error) {
	turn, ctx, err := g.turns.Join(ctx, "ns")
	if err != nil {
		return nil, err
	}
	defer turn.Leave()
	return g.lazy.Content(ctx, pkg, channel, name)
}

func TestWaitsForOthersAreNotTimeForReading(t *testing.T) {
	for name, row := range map[string]struct {
		wait, takes, took time.Duration
		isOver            bool
	}{
		"a wait does not count":      {wait: 25 * time.Second, takes: 20 * time.Second, took: 45 * time.Second},
		"a read counts after a wait": {wait: 25 * time.Second, takes: time.Minute, took: 55 * time.Second, isOver: true},
		"waits have a limit":         {wait: time.Hour, takes: time.Second, took: ReadTime + ReadWait, isOver: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, reader := lazily(row.takes)
				all := &turns.Turns{Slots: 1, Share: 1}
				snapshot, _ := in.Catalogs.Get(types.NamespacedName{Namespace: "ns", Name: "cat"})
				snapshot.Reader = &guarded{reader, all}
				other, _, err := all.Join(t.Context(), "other")
				require.NoError(t, err)
				leave := time.AfterFunc(row.wait, other.Leave)
				defer leave.Stop()
				began := time.Now()
				_, _, _, err = ResolveSteps(t.Context(), in, chosen(t, "ns/cat/op/stable/"))
				require.Equal(t, row.isOver, err != nil, err)
				require.InDelta(t, row.took, time.Since(began), float64(time.Second))
				require.True(t, in.Reading.Begun())
				require.Equal(t, row.isOver, in.Reading.IsOver())
			})
		})
	}
}

// The author of a bundle decides how long parsing it takes.
func TestParsingIsTimeForReading(t *testing.T) {
	in, set, read := costlyInput(1, 1)
	pin := Pin{CatalogNamespace: "ns", Catalog: "cat", Bundle: set[0].Bundle}
	steps := func(ctx context.Context) error {
		left := int64(MaxPlanCost)
		_, err := in.steps(ctx, pin, must(expensive{1, read}.Content(ctx, "", "", pin.Bundle)), &left)
		return err
	}
	in.Reading = &Reading{}
	require.NoError(t, steps(t.Context()))
	require.True(t, in.Reading.Begun())

	var unread *ReadError
	in.Reading.spent = ReadTime
	err := steps(t.Context())
	require.ErrorAs(t, err, &unread, "the bundle is not invalid")
	require.EqualError(t, err, `bundle content: bundle "p0.v1" of catalogsource ns/cat: reading bundles from catalogs takes longer than 30s in total; this will be retried`)

	in.Reading = nil
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err = steps(ended)
	require.ErrorAs(t, err, &unread, "the bundle is not invalid")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrContent)
}
