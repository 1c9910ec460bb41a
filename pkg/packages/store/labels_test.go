package store

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/packages"
)

// labeled returns a CatalogSource with as many labels as its packages inherit.
func labeled(namespace, value string) packages.Source {
	from := packages.Source{Namespace: namespace, Name: "c", UID: "u", Labels: map[string]string{}}
	for i := range 32 {
		from.Labels[fmt.Sprintf("%02d%s", i, strings.Repeat("k", 28))] = fmt.Sprintf("%02d%s", i, strings.Repeat(value, 28))
	}
	return from
}

// fill stores a catalog with n packages.
func fill(t *testing.T, s *Store, from packages.Source, n int) error {
	t.Helper()
	snap := &catalog.Snapshot{Digest: "d", Packages: map[string]*catalog.Package{}}
	for i := range n {
		name := fmt.Sprintf("p%06d", i)
		snap.Packages[name] = &catalog.Package{Name: name}
	}
	body, to := io.Pipe()
	go func() {
		_, err := packages.Write(context.Background(), to, packages.HeaderOf(from, snap), snap, packages.TenantLimits())
		_ = to.CloseWithError(err)
	}()
	defer body.Close()
	return s.Put(types.NamespacedName{Namespace: from.Namespace, Name: from.Name}, body)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Otherwise, a CatalogSource with many labels and small packages takes the room of many others.
func TestLabelsOfACatalogSourceAreStoredOnce(t *testing.T) {
	const n = 10_000
	s := New(Options{Directory: t.TempDir(), GlobalNamespace: "global"})
	before := heap()
	require.NoError(t, fill(t, s, labeled("a", "x"), n))
	held := heap() - before
	c := s.catalogs[types.NamespacedName{Namespace: "a", Name: "c"}]
	require.Less(t, c.use.index, int64(n*700))
	require.Less(t, c.use.disk, int64(n*1000))
	require.Less(t, held, c.use.index*3/2, "the estimate includes what is held")
	runtime.KeepAlive(s)
}

func TestPackagesInheritTheLabelsOfTheirCatalogSource(t *testing.T) {
	s := New(Options{Directory: t.TempDir(), GlobalNamespace: "global"})
	key := types.NamespacedName{Namespace: "a", Name: "c"}
	require.NoError(t, fill(t, s, labeled("a", "x"), 2))
	begin := s.Version()
	before := s.get(key, "p000001").Labels().Map()
	require.Subset(t, before, labeled("a", "x").Labels)
	require.Subset(t, before, map[string]string{"catalog": "c", "catalog-namespace": "a", "operatorframework.io/os.linux": "supported"})

	t.Log("a change to the labels of the CatalogSource changes the packages")
	require.NoError(t, fill(t, s, labeled("a", "y"), 2))
	changes, _, err := s.Changes(t.Context(), View{}, begin)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	require.Equal(t, before, changes[1].Before.Map())
	now := s.get(key, "p000001").Labels()
	require.Subset(t, now.Map(), labeled("a", "y").Labels)
	for name, value := range now.Map() {
		require.True(t, now.Has(name))
		require.Equal(t, value, now.Get(name))
	}
	require.False(t, now.Has("other"))
	require.NoError(t, fill(t, s, labeled("a", "y"), 2))
	_, until, err := s.Changes(t.Context(), View{}, changes[1].Version)
	require.NoError(t, err)
	require.Equal(t, s.Version(), until)
	require.Equal(t, now, s.get(key, "p000001").Labels())

	own := Labels{own: map[string]string{"a": "own"}, shared: map[string]string{"a": "shared"}}
	require.Equal(t, "own", own.Get("a"))
	require.Equal(t, map[string]string{"a": "own"}, own.Map())
}

// Three namespaces that use as much as they can must not leave all others with the minimum.
func TestANamespaceLeavesAsMuchAsItUses(t *testing.T) {
	s := New(Options{GlobalNamespace: "global"})
	catalog := func(namespace, name string, index int64) *Catalog {
		return &Catalog{Header: packages.Header{Source: packages.Source{Namespace: namespace, Name: name}}, use: use{0, index}}
	}
	fits := func(c *Catalog) error { return s.fits(c, s.others(c.Key())) }
	for _, namespace := range []string{"evil1", "evil2", "evil3", "evil4"} {
		for n := range 64 {
			if c := catalog(namespace, fmt.Sprint(n), 512<<10); fits(c) == nil {
				s.replace(c)
			}
		}
	}
	require.NoError(t, fits(catalog("victim", "c", 4<<20)))
	require.ErrorIs(t, fits(catalog("victim", "c", 5<<20)), ErrFull)

	t.Log("what is stored can be replaced, but not grow")
	require.NoError(t, fits(catalog("evil1", "0", 512<<10)))
	require.ErrorIs(t, fits(catalog("evil1", "0", 512<<10+1)), ErrFull)
	require.ErrorContains(t, fits(catalog("evil1", "0", 512<<10+1)), "or 32 MiB of names and labels")
	require.ErrorContains(t, fits(catalog("evil3", "0", 512<<10+1)), "exceed 8 MiB of descriptions or 512 KiB of names and labels")
	require.ErrorContains(t, fits(catalog("global", "0", 1<<40)), "global catalog namespace")
}

// Catalogs that are received at the same time must not exceed the limits together.
func TestCatalogsReceivedTogetherShareTheRoom(t *testing.T) {
	s := New(Options{GlobalNamespace: "global"})
	catalog := func(name string) *Catalog {
		return &Catalog{Header: packages.Header{Source: packages.Source{Namespace: "a", Name: name}}, use: use{0, maxNamespaceIndex}}
	}
	one, two := catalog("one"), catalog("two")
	require.NoError(t, s.fits(one, s.others(one.Key())))
	require.NoError(t, s.fits(two, s.others(two.Key())))
	require.NoError(t, s.publish(one))
	require.ErrorIs(t, s.publish(two), ErrFull)
	all, _ := s.Catalogs()
	require.Len(t, all, 1)
}
