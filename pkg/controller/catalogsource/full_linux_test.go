package catalogsource

import (
	"encoding/base64"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/env/tmpfs"
)

// heavyCatalog returns a catalog with 3 MiB of incompressible manifests.
func heavyCatalog() string {
	noise := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	return goodCatalog + `
properties: [{type: olm.bundle.object, value: {data: ` + base64.StdEncoding.EncodeToString(noise) + `}}]
`
}

// A full disk does not mean that the image is invalid: the last good content is kept, and the image is read when space
// is available.
func TestReadsAnImageWhenTheDiskHasSpace(t *testing.T) {
	for name, left := range map[string]int64{"nothing": 0, "its files": 1 << 20, "its manifests": 5 << 20} {
		t.Run("no space for "+name, func(t *testing.T) {
			full, s := tmpfs.New(t, "12m"), registry.New(t)
			store, err := disk.Open(filepath.Join(full.Dir, "store"), 0)
			require.NoError(t, err)
			t.Cleanup(func() { _ = store.Close() })
			ref, _ := push(t, s, "catalog:v1", goodCatalog)
			w := running(t, catalogSource("cat", polled(ref, "10m")))
			w.images.disk, w.bundles.Disk = store, store
			requireReady(t, w.afterCheck(t, "cat"))

			push(t, s, "catalog:v1", heavyCatalog())
			full.Fill(t, left)
			w.pass(t, 12*time.Minute)
			got := w.afterCheck(t, "cat")
			require.Contains(t, got.Message, "cannot be written to disk: no space left on device")
			require.Contains(t, got.Message, "is still served")
			require.NotContains(t, got.Message, full.Dir)
			require.Equal(t, "TRANSIENT_FAILURE", got.GRPCConnectionState.LastObservedState)
			require.Equal(t, 1, w.offered(t, "cat"))
			work, err := os.ReadDir(filepath.Join(full.Dir, "store", "work"))
			require.NoError(t, err)
			require.Empty(t, work, "no temporary files are left")

			full.Free(t)
			w.pass(t, 2*firstReload)
			requireReady(t, w.afterCheck(t, "cat"))
			snap, _ := w.Store.Get(key("cat"))
			content, err := snap.Reader.Content(t.Context(), "a", "stable", "a.v1")
			require.NoError(t, err)
			require.Len(t, content.Manifests[0], 3<<20)
		})
	}
}
