package bundle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

// A namespace can use one of the two places. The time for which others use both is not its own.
func TestNamespacesTakeTurnsConvertingCostlyTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := &catalog.Content{Manifests: [][]byte{[]byte("a: " + strings.Repeat("x", 600_000))}}
		require.Greater(t, catalog.YAMLCost(content.Manifests[0]), int64(costlyText))
		hold := func(namespace string) *turns.Turn {
			turn, _, err := costly.Join(t.Context(), namespace)
			require.NoError(t, err)
			return turn
		}
		parse := func(namespace string) (took, waited time.Duration, err error) {
			late := errors.New("too late")
			ctx, cancel := context.WithTimeoutCause(catalog.RequestedBy(t.Context(), namespace), time.Minute, late)
			defer cancel()
			ctx, waits := turns.Measure(ctx)
			began := time.Now()
			_, err = ParseContent(ctx, content)
			require.Equal(t, time.Since(began) == time.Minute, errors.Is(err, late), "%v", err)
			return time.Since(began), waits.Total(), err
		}
		one := hold("hostile")
		took, waited, _ := parse("hostile")
		require.Equal(t, time.Minute, took, "it has a place already")
		require.Zero(t, waited)
		took, _, err := parse("ns")
		require.ErrorContains(t, err, "no ClusterServiceVersion")
		require.Zero(t, took)

		two := hold("other")
		time.AfterFunc(10*time.Second, one.Leave)
		took, waited, err = parse("ns")
		require.ErrorContains(t, err, "no ClusterServiceVersion")
		require.Equal(t, 10*time.Second, took)
		require.Equal(t, took, waited)
		two.Leave()
	})
}
