package registries

import (
	"os"
	"testing"

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

// push pushes the image of a registry as NAME:TAG and returns its name and its reference by digest.
func push(t *testing.T, named, tag, catalog string) (ref, pinned string) {
	t.Helper()
	return cluster.PushRegistry(t, images, named+":"+tag, catalog)
}
