package catalogsource

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
)

// When the Pods of a registry are deleted, for example with their namespace, the content is kept. A connection that is closed must not
// be read: each attempt would fail with "the client connection is closing", and be retried.
func TestContentOfARegistryWithoutAnAddressIsNotRead(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "a"}
	woken := 0
	store := &catalog.Store{}
	store.Watch(func(catalog.Change) { woken++ })
	c := newConnections(newBudget("global"), func(types.NamespacedName) {})
	_, _, err := c.ensure(key, "origin", "127.0.0.1:1")
	require.NoError(t, err)
	c.byKey[key].good = &catalog.Snapshot{Key: key, Digest: "d"}
	for i, target := range []string{"", "127.0.0.1:2", ""} {
		state, listed, err := c.ensure(key, "origin", target)
		require.NoError(t, err)
		require.Equal(t, connectivity.Idle, state)
		store.Put(listed.good)
		require.Equal(t, i+1, woken, "those who wait are woken")
		require.Equal(t, target == "", listed.good.IsUnreachable)
		if target == "" {
			_, err = listed.good.Reader.Content(t.Context(), "p", "c", "b")
			require.ErrorIs(t, err, catalog.ErrNoContent)
			require.ErrorContains(t, err, "the registry has no address at the moment")
		}
	}
	c.drop(key)
}

// A registry that closes its connection after each listing was listed without a pause.
func TestARegistryIsNotListedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &connection{}
		begun := time.Now()
		require.False(t, e.pauseAfter(nil))
		ctx, cancel := context.WithTimeout(t.Context(), longestRest/2)
		defer cancel()
		require.False(t, e.rest(ctx), "the next listing waits")
		require.Equal(t, longestRest/2, time.Since(begun))
		time.Sleep(longestRest)
		require.True(t, e.rest(t.Context()))
	})
}
