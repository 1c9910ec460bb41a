package store

import (
	"bytes"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/packages"
)

// A response can be in use while its catalog is replaced.
func TestAnEntryDoesNotKeepItsCatalog(t *testing.T) {
	s := New(Options{Directory: t.TempDir(), GlobalNamespace: "global"})
	key := types.NamespacedName{Namespace: "a", Name: "c"}
	put := func(digest string) {
		var body bytes.Buffer
		e, err := packages.NewEncoder(&body, packages.Header{Digest: digest, Source: packages.Source{Namespace: "a", Name: "c"}})
		require.NoError(t, err)
		record := packages.Record{}
		record.Manifest.Name = "p"
		require.NoError(t, e.Encode(record))
		require.NoError(t, e.Close())
		require.NoError(t, s.Put(key, &body))
	}
	put("1")
	catalogs, _ := s.Catalogs()
	old := weak.Make(catalogs[0])
	clear(catalogs)
	entries, _ := s.List(View{})
	put("2")
	require.Eventually(t, func() bool {
		runtime.GC()
		return old.Value() == nil
	}, 20*time.Second, time.Millisecond)
	require.Equal(t, key, entries[0].Catalog())
}

// A request for a catalog is authorized and limited by the catalog in its path, so its content must name the same one.
func TestPutStoresOnlyTheCatalogThatTheRequestNames(t *testing.T) {
	s := New(Options{Directory: t.TempDir(), GlobalNamespace: "global"})
	key := types.NamespacedName{Namespace: "a", Name: "c"}
	for _, named := range []types.NamespacedName{{Namespace: "global", Name: "c"}, {Namespace: "a", Name: "other"}, {}, key} {
		var body bytes.Buffer
		e, err := packages.NewEncoder(&body, packages.Header{Source: packages.Source{Namespace: named.Namespace, Name: named.Name}})
		require.NoError(t, err)
		record := packages.Record{}
		record.Manifest.Name = "p"
		require.NoError(t, e.Encode(record))
		require.NoError(t, e.Close())
		err = s.Put(key, &body)
		catalogs, _ := s.Catalogs()
		if named == key {
			require.NoError(t, err)
			require.Len(t, catalogs, 1)
			continue
		}
		require.ErrorContains(t, err, "names a catalog other than a/c")
		require.Empty(t, catalogs)
	}
}
