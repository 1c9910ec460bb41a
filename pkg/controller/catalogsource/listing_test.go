package catalogsource

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// greedy is a registry that sends bundles of 100 KiB endlessly, and counts the bundles that were received.
type greedy struct {
	paced
	bundles int
	taken   *atomic.Int64
}

func (g *greedy) ListBundles(ctx context.Context, each func(*api.Bundle) error) error {
	mine := int64(0)
	defer func() { g.taken.Add(-mine) }()
	for n := range g.bundles {
		b := &api.Bundle{PackageName: "a", ChannelName: "stable", CsvName: fmt.Sprintf("a.v%d", n), Version: "1.0.0",
			Properties: []*api.Property{{Type: "x", Value: `"` + strings.Repeat("x", 100<<10) + `"`}}}
		if err := each(b); err != nil {
			return err
		}
		mine += 100 << 10
		g.taken.Add(100 << 10)
		time.Sleep(100 * time.Millisecond)
	}
	<-ctx.Done()
	return ctx.Err()
}

// Registries take turns. While a registry waits, the bundles that it has already listed are retained and count toward
// the budget of its namespace.
func TestHalfListedRegistriesShareTheBudgetOfTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := newBudget("global")
		bound.max = 4 << 20
		c := newConnections(bound, func(types.NamespacedName) {})
		ctx, cancel := context.WithCancel(t.Context())
		var taken, refused atomic.Int64
		for n := range 8 {
			key := types.NamespacedName{Namespace: "t1", Name: fmt.Sprint(n)}
			c.byKey[key] = &connection{holder: holder{fromAddress, key, n}}
		}
		for key, e := range c.byKey {
			go func() {
				for ctx.Err() == nil {
					if _, err := c.list(ctx, key, e, &greedy{bundles: 200, taken: &taken}); err != nil && strings.Contains(err.Error(), "together, at most 4 MiB are allowed") {
						refused.Add(1)
					}
					time.Sleep(time.Second)
				}
			}()
		}
		// Within a minute, each registry gets turns.
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			require.LessOrEqual(t, taken.Load(), bound.max)
		}
		require.Positive(t, refused.Load())
		cancel()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Empty(t, bound.used, "stopped listings do not count")
	})
}

func TestContentStillCountsIfItsSuccessorIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := newBudget("global")
		bound.max = 4 << 20
		c := newConnections(bound, func(types.NamespacedName) {})
		key := types.NamespacedName{Namespace: "t1", Name: "a"}
		e := &connection{holder: holder{fromAddress, key, 1}}
		c.byKey[key] = e
		require.NoError(t, bound.take(e.holder, 3<<20))
		var taken atomic.Int64
		_, err := c.list(t.Context(), key, e, &greedy{bundles: 200, taken: &taken})
		require.ErrorContains(t, err, "together, at most 4 MiB are allowed")
		require.EqualValues(t, 3<<20, bound.holds(e.holder))

		_, err = c.list(t.Context(), key, e, &paced{bundles: 1})
		require.NoError(t, err, "the replaced content does not count in addition")
		require.Less(t, bound.holds(e.holder), int64(1<<20))

		delete(c.byKey, key)
		_, err = c.list(t.Context(), key, e, &paced{bundles: 1})
		require.NoError(t, err)
		require.Zero(t, bound.holds(e.holder), "a CatalogSource that was deleted in the meantime uses nothing")
	})
}
