package store

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/packages"
)

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
