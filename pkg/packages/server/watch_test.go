package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/packages"
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
	for _, w := range all {
		w.Stop()
		w.end()
	}
}
