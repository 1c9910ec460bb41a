package store

import (
	"fmt"
	"runtime"
	"strings"
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

// A tenant can change the labels of all packages of a catalog every few seconds, or those of one CatalogSource after the other.
func TestEarlierLabelsTakeLimitedMemory(t *testing.T) {
	text := func(parts ...any) string { return fmt.Sprint(parts...) + strings.Repeat("x", 100) }
	s := New(Options{GlobalNamespace: "global"})
	begin := s.Version()
	changed(s, "victim", 0, 9000, noLabels) // more changes than the history keeps of others, but less memory

	t.Log("labels of packages")
	before := heap()
	for round := range 30 {
		changed(s, "evil", round, 1000, func(i int) map[string]string {
			out := map[string]string{}
			for n := range 10 {
				out[text(round, i, n)] = text(round, i)
			}
			return out
		})
	}
	held := heap() - before
	require.Less(t, held, int64(48<<20), "with the current ones")
	require.LessOrEqual(t, s.history.bytes, int64(16<<20))
	got, _, err := s.Changes(t.Context(), View{Namespace: "victim"}, begin)
	require.NoError(t, err)
	require.NotEmpty(t, got)
	got, _, err = s.Changes(t.Context(), View{Namespace: "evil"}, s.history.lists["evil"].since)
	require.NoError(t, err)
	require.Less(t, len(got), 40, "a watch gets at most 32 KiB of labels at a time")

	t.Log("labels of CatalogSources")
	for round := range 20_000 {
		c := &Catalog{Header: packages.Header{Source: packages.Source{Namespace: "evil", Name: "c", Labels: map[string]string{}}}}
		for n := range 16 {
			c.Source.Labels[text(round, n)] = "x"
		}
		c.entries = []*Entry{{Name: "p", Source: &c.Source, sum: [32]byte{byte(round), byte(round >> 8)}}}
		s.replace(c)
	}
	require.Less(t, heap()-before, int64(48<<20))
	var sum int64
	for _, list := range s.history.lists {
		for _, c := range list.all {
			sum += c.bytes
		}
	}
	require.Equal(t, sum, s.history.bytes)
	_, _, err = s.Changes(t.Context(), View{Namespace: "victim"}, begin)
	require.NoError(t, err)
	runtime.KeepAlive(s)
}
