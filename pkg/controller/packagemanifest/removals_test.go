package packagemanifest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A tenant can delete and recreate a CatalogSource as often as change its labels.
func TestLimitsHowOftenARecreatedCatalogIsSent(t *testing.T) {
	w := given(t)
	w.interval = time.Hour
	tenant, global := w.source("a", "one", "u1"), w.source("global", "two", "u2")
	w.start()
	w.available()
	w.await("a/one", "global/two")
	w.sent()
	for _, key := range []types.NamespacedName{tenant, global} {
		cs := newObject()
		require.NoError(t, w.client.Get(t.Context(), key, cs))
		require.NoError(t, w.client.Delete(t.Context(), cs))
		require.NoError(t, w.reconcile(key))
		w.source(key.Namespace, key.Name, "another")
	}
	require.Equal(t, []string{"delete a/one", "delete global/two"}, w.sent())
	result, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: tenant})
	require.NoError(t, err)
	require.Greater(t, result.RequeueAfter, time.Minute)
	require.NoError(t, w.reconcile(global))
	require.Equal(t, []string{"put global/two"}, w.sent())

	w.server.restart()
	w.sessions.wakeUp()
	w.await("a/one", "global/two")
	require.Contains(t, w.sent(), "put a/one", "a new server has nothing")
}

func TestRemembersRemovalsOnlyAsLongAsTheyMatter(t *testing.T) {
	r, s := removals{}, &session{}
	key := func(n int) types.NamespacedName { return types.NamespacedName{Namespace: "a", Name: fmt.Sprint(n)} }
	r.add(key(0), removal{s, time.Now().Add(-time.Second)})
	require.Empty(t, r.all)
	r.add(key(0), removal{s, time.Now().Add(50 * time.Millisecond)})
	require.Len(t, r.all, 1)
	time.Sleep(60 * time.Millisecond)
	require.LessOrEqual(t, r.wait(s, key(0)), time.Duration(0))
	for n := range maxRemovals + 10 {
		r.add(key(n+1), removal{s, time.Now().Add(time.Hour)})
	}
	require.Equal(t, maxRemovals, len(r.all)) //nolint:testifylint // Len would print all of them
	require.Positive(t, r.wait(s, key(1)))
	require.Zero(t, r.wait(&session{}, key(1)))
}
