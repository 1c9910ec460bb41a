package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env/registry"
)

// PushRegistry pushes an image without a file-based catalog as NAME:TAG and returns its name and its reference by digest.
// The image's Pods run test/operators/registry, which serves the catalog or, if the catalog is "", exits immediately.
func (c *Cluster) PushRegistry(t testing.TB, to *registry.Server, named, catalog string) (ref, pinned string) {
	t.Helper()
	layer, err := registry.Layer(fstest.MapFS{"catalog.json": {Data: []byte(catalog)}, "name": {Data: []byte(named)}}, "srv")
	require.NoError(t, err)
	made, err := registry.Image(nil, layer)
	require.NoError(t, err)
	ref, digest, err := to.Push(named, made)
	require.NoError(t, err)
	repository, _, _ := strings.Cut(named, ":")
	pinned = to.Host + "/" + repository + "@" + digest

	program := filepath.Join(c.Bin, "sample-registry")
	require.FileExists(t, program, "run make build")
	dir := t.TempDir()
	if catalog != "" {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "configs"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "configs", "catalog.json"), []byte(catalog), 0o600))
	}
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "registry")))
	require.NoError(t, c.MapImage(pinned, filepath.Join(dir, "registry")))
	return ref, pinned
}
