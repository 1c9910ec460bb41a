package bundleimage

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle/unpack"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/corpus"
	"github.com/remit-olm/remit/test/env/registry"
)

// BenchmarkBundleImage unpacks an image with the largest bundle of the corpus (4 MB) from a local registry.
func BenchmarkBundleImage(b *testing.B) {
	dir := corpus.Dir(b, "bundles/argocd-operator")
	versions, err := os.ReadDir(dir)
	require.NoError(b, err)
	files := os.DirFS(filepath.Join(dir, versions[0].Name()))
	size := 0
	require.NoError(b, fs.WalkDir(files, ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += int(info.Size())
		return err
	}))
	s := registry.New(b)
	made, err := registry.Bundle(files)
	require.NoError(b, err)
	ref, _, err := s.Push("bundle:v1", made)
	require.NoError(b, err)
	client, err := image.New(image.Options{Local: true})
	require.NoError(b, err)
	b.SetBytes(int64(size))
	for b.Loop() {
		opened, err := client.Open(b.Context(), ref, image.Access{Anywhere: true})
		require.NoError(b, err)
		layers, err := unpack.Spool{Dir: b.TempDir()}.Download(b.Context(), opened)
		require.NoError(b, err)
		_, err = contentOf(b.Context(), layers, catalog.NewDecoding())
		require.NoError(b, layers.Close())
		require.NoError(b, err)
	}
}
