package store

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/packages"
)

func TestLimitsWhatNamespacesUse(t *testing.T) {
	s := New(Options{GlobalNamespace: "global"})
	catalog := func(namespace, name string, disk, index int64) *Catalog {
		return &Catalog{Header: packages.Header{Source: packages.Source{Namespace: namespace, Name: name}}, use: use{disk, index}}
	}
	fits := func(c *Catalog) error {
		return s.fits(c, s.others(c.Key()))
	}
	require.NoError(t, fits(catalog("a", "one", maxNamespaceDisk, maxNamespaceIndex)))
	s.replace(catalog("a", "one", maxNamespaceDisk, maxNamespaceIndex))
	require.NoError(t, fits(catalog("a", "one", maxNamespaceDisk, 0)), "a catalog that replaces another one counts once")
	require.ErrorIs(t, fits(catalog("a", "two", 1, 0)), ErrFull)
	require.ErrorIs(t, fits(catalog("a", "two", 0, 1)), ErrFull)
	require.NoError(t, fits(catalog("b", "two", 1, 1)), "each namespace has its own limit")
	for n := range maxTenantDisk / maxNamespaceDisk {
		s.replace(catalog(fmt.Sprint("n", n), "c", maxNamespaceDisk, 0))
	}
	require.ErrorIs(t, fits(catalog("b", "two", leastNamespaceDisk+1, 0)), ErrFull, "and all tenants together have one")
	require.NoError(t, fits(catalog("b", "two", leastNamespaceDisk, leastNamespaceIndex)), "but each namespace has a minimum")
	for n := range (mostDisk - maxTenantDisk) / leastNamespaceDisk {
		s.replace(catalog(fmt.Sprint("least", n), "c", leastNamespaceDisk, 0))
	}
	require.ErrorIs(t, fits(catalog("b", "two", 1, 0)), ErrFull, "up to another total")
	require.NoError(t, fits(catalog("global", "c", maxGlobalDisk, maxGlobalIndex)), "which does not apply to the global catalogs")
	require.ErrorIs(t, fits(catalog("global", "c", maxGlobalDisk+1, 0)), ErrFull)
}

func TestListsNamesInChunks(t *testing.T) {
	s := New(Options{GlobalNamespace: "global"})
	for key, names := range map[types.NamespacedName][]string{
		{Namespace: "global", Name: "c"}: {"a", "b", "d", "f"}, {Namespace: "a", Name: "c"}: {"b", "c", "e"}, {Namespace: "b", Name: "c"}: {"bb"},
	} {
		c := &Catalog{Header: packages.Header{Source: packages.Source{Namespace: key.Namespace, Name: key.Name}}}
		for _, name := range names {
			c.entries = append(c.entries, &Entry{Name: name, Source: &c.Source})
		}
		s.replace(c)
	}
	v := View{Namespace: "a", Match: func(e *Entry) bool { return e.Name != "d" }}
	require.Equal(t, []string{"a", "b"}, s.Names(v, "", 2))
	require.Equal(t, []string{"c", "e"}, s.Names(v, "b", 2))
	require.Equal(t, []string{"f"}, s.Names(v, "e", 2))
	require.Empty(t, s.Names(v, "f", 2))
	require.Equal(t, []string{"a", "b", "bb", "c", "e", "f"}, s.Names(View{Match: v.Match}, "", 9))
	v.Name = "b"
	require.Equal(t, []string{"b"}, s.Names(v, "", 2))
	require.Empty(t, s.Names(v, "b", 2))
	v.Name = "bb"
	require.Empty(t, s.Names(v, "", 2), "the package of another namespace")
}

func TestForgetsOldChanges(t *testing.T) {
	s := New(Options{GlobalNamespace: "global"})
	begin := s.Version()
	key := types.NamespacedName{Namespace: "a", Name: "one"}
	change := func(n int) {
		c := &Catalog{Header: packages.Header{Source: packages.Source{Namespace: "a", Name: "one"}}}
		for i := range n {
			c.entries = append(c.entries, &Entry{Name: fmt.Sprintf("p%06d", i), Source: &c.Source, own: map[string]string{}, sum: [32]byte{byte(n)}})
		}
		s.replace(c)
	}
	change(2)
	changes, until, err := s.Changes(t.Context(), View{}, begin)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	require.Equal(t, s.Version(), until)
	change(2*maxHistory + 1)
	_, _, err = s.Changes(t.Context(), View{}, begin)
	require.ErrorIs(t, err, ErrExpired)
	require.LessOrEqual(t, s.history.n, 2*maxHistory)
	s.Delete(key)
	require.Nil(t, s.Current(Change{Catalog: key, Package: "p000001"}))
}

// A tenant can replace all packages of its catalogs at any time.
func TestWhatANamespaceChangesDoesNotEndTheWatchesOfOthers(t *testing.T) {
	s := New(Options{GlobalNamespace: "global"})
	begin := s.Version()
	change := func(namespace string, from, n int) {
		c := &Catalog{Header: packages.Header{Source: packages.Source{Namespace: namespace, Name: "c"}}}
		for i := range n {
			c.entries = append(c.entries, &Entry{Name: fmt.Sprintf("p%06d", from+i), Source: &c.Source, own: map[string]string{}})
		}
		s.replace(c)
	}
	change("global", 0, 3)
	change("b", 0, 2)
	for round := range 5 {
		change("evil", round*maxHistory, maxHistory)
	}
	require.Less(t, s.history.n, 2*maxHistory)
	changes, until, err := s.Changes(t.Context(), View{Namespace: "b"}, begin)
	require.NoError(t, err)
	require.Equal(t, s.Version(), until)
	require.Len(t, changes, 5)
	require.IsIncreasing(t, []uint64{changes[0].Version, changes[2].Version, changes[3].Version, changes[4].Version})
	for _, view := range []View{{Namespace: "evil"}, {}} {
		_, _, err = s.Changes(t.Context(), view, begin)
		require.ErrorIs(t, err, ErrExpired, "%v", view)
	}
}
