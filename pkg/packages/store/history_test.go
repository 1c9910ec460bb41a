package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/packages"
)

// changed stores a catalog with n packages, all of which are new or have changed since the previous catalog.
func changed(s *Store, namespace string, round, n int, own func(i int) map[string]string) {
	c := &Catalog{Header: packages.Header{Source: packages.Source{Namespace: namespace, Name: "c"}}}
	for i := range n {
		c.entries = append(c.entries, &Entry{Name: fmt.Sprintf("p%06d", i), Source: &c.Source, own: own(i), sum: [32]byte{byte(round)}})
	}
	s.replace(c)
}

func noLabels(int) map[string]string { return nil }

// A watch keeps the changes that it gets until its client has read their events, and one tenant can have hundreds of watches.
func TestAWatchGetsAFewChangesAtATime(t *testing.T) {
	s := New(Options{GlobalNamespace: "global"})
	begin := s.Version()
	const n = 307
	for round := range 2 {
		for _, namespace := range []string{"global", "a", "b", "c"} {
			changed(s, namespace, round, n, noLabels)
		}
	}
	for view, want := range map[string]int{"": 8 * n, "a": 4 * n} {
		seen, last := map[string]int{}, begin
		for at := begin; at < s.Version(); {
			got, until, err := s.Changes(t.Context(), View{Namespace: view}, at)
			require.NoError(t, err)
			require.LessOrEqual(t, len(got), 100)
			require.LessOrEqual(t, cap(got), 400)
			require.Greater(t, until, at)
			for _, c := range got {
				require.Greater(t, c.Version, last, "changes are in order, and none is sent twice")
				last = c.Version
				seen[fmt.Sprint(c.Catalog, c.Package, c.IsNew)]++
			}
			require.LessOrEqual(t, last, until)
			at = until
		}
		require.Len(t, seen, want, "every change of namespace %q", view)
	}
}
