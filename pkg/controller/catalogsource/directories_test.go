package catalogsource

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
)

// withManifest is a catalog with one bundle, which contains a manifest.
func withManifest(manifest string) string {
	return goodCatalog + fmt.Sprintf(`---
schema: olm.package
name: inline
defaultChannel: stable
---
schema: olm.channel
name: stable
package: inline
entries: [{name: inline.v1}]
---
schema: olm.bundle
name: inline.v1
package: inline
properties:
- {type: olm.package, value: {packageName: inline, version: 1.0.0}}
- {type: olm.bundle.object, value: {data: %s}}
`, base64.StdEncoding.EncodeToString([]byte(manifest)))
}

func TestTheManifestsOfADirectoryAreOnDiskOnly(t *testing.T) {
	path, store := t.TempDir(), t.TempDir()
	opened, err := disk.Open(store, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	d := newDirectories(map[string]string{"img": path}, opened).byImage["img"]
	read := func(snap *catalog.Snapshot) string {
		content, err := snap.Reader.Content(t.Context(), "inline", "stable", "inline.v1")
		require.NoError(t, err)
		require.Len(t, content.Manifests, 1)
		return string(content.Manifests[0])
	}
	load := func(manifest string) *catalog.Snapshot {
		write(t, filepath.Join(path, "catalog.yaml"), withManifest(manifest))
		d.version.Add(1)
		got, _ := d.load(t.Context(), key("cat"), "")
		require.NoError(t, got.err)
		require.IsType(t, &disk.Contents{}, got.good.Reader)
		return got.good
	}

	first := load(`{"kind":"A"}`)
	require.JSONEq(t, `{"kind":"A"}`, read(first))
	second := load(`{"kind":"B"}`)
	require.JSONEq(t, `{"kind":"B"}`, read(second))
	require.JSONEq(t, `{"kind":"A"}`, read(first), "users of the previous content can still read it")
	require.NotEqual(t, first.Digest, second.Digest)

	left, err := filepath.Glob(filepath.Join(store, "*", "*"))
	require.NoError(t, err)
	require.Empty(t, left, "no file remains that somebody must delete")
}
