package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/remit-olm/remit/pkg/packages"
	"github.com/remit-olm/remit/pkg/packages/store"
)

// A tenant can change all packages of its catalogs, and open watches from the version before, without reading them.
func TestWatchesThatAreNotReadKeepFewChanges(t *testing.T) {
	const n = 3000
	s := serving(t)
	put := func(team string) {
		var all []packages.Record
		for i := range n {
			all = append(all, record("c", fmt.Sprintf("p%06d", i), team))
		}
		s.put(global, "c", all...)
	}
	put("old")
	s.complete()
	begin := s.store.Version()
	put("new")
	m := &manifests{store: s.store, room: newRoom()}
	user, end := request(t, "slow")
	defer end()
	before := heap()
	var all []unread
	for range maxWatchesUser {
		all = append(all, m.unreadSince(t, user, begin))
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Len(c, holders(all), maxWatchesUser) }, time.Minute, time.Millisecond)
	require.Less(t, heap()-before, int64(maxWatchesUser*n*20))
	changes, _, err := s.store.Changes(t.Context(), store.View{}, begin)
	require.NoError(t, err)
	require.NotEmpty(t, changes[0].Before.Map())

	t.Log("nor do they keep labels that the store may drop")
	w := &watcher{store: s.store}
	var match error
	w.selection, match = m.selection(genericrequest.WithNamespace(user, "n"), &metainternalversion.ListOptions{})
	require.NoError(t, match)
	for _, c := range w.note(changes) {
		require.True(t, c.matched)
		require.Empty(t, c.Before.Map())
	}
	for _, w := range all {
		w.Stop()
		w.end()
	}
}
