package registries

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// cluster is shared by all tests of this package. Each test has its own CatalogSources.
var cluster *env.Cluster

// images is an image registry that the cluster may access without TLS.
var images *registry.Server

func TestMain(m *testing.M) {
	images = registry.Start()
	code := env.Suite{Cluster: &cluster, Options: options, Parallel: "8"}.Run(m)
	images.Close()
	os.Exit(code)
}

func options(string) (env.Options, error) {
	return env.Options{CatalogArgs: []string{"--registry-plain-http=" + images.Host}}, nil
}

// push pushes an image without a file-based catalog as NAME:TAG and returns its name and its reference by digest. The
// image's Pods run test/operators/registry, which serves the catalog or, if the catalog is "", exits immediately.
func push(t *testing.T, named, tag, catalog string) (ref, pinned string) {
	t.Helper()
	layer, err := registry.Layer(fstest.MapFS{"catalog.json": {Data: []byte(catalog)}, "tag": {Data: []byte(tag)}}, "srv")
	require.NoError(t, err)
	made, err := registry.Image(nil, layer)
	require.NoError(t, err)
	ref, digest, err := images.Push(named+":"+tag, made)
	require.NoError(t, err)
	pinned = images.Host + "/" + named + "@" + digest

	program := filepath.Join(cluster.Bin, "sample-registry")
	require.FileExists(t, program, "run make build")
	dir := t.TempDir()
	if catalog != "" {
		require.NoError(t, os.Mkdir(filepath.Join(dir, "configs"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "configs", "catalog.json"), []byte(catalog), 0o600))
	}
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "registry")))
	require.NoError(t, cluster.MapImage(pinned, filepath.Join(dir, "registry")))
	return ref, pinned
}
