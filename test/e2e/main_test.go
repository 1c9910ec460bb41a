package e2e

import (
	"os"
	"testing"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// cluster is shared by all tests of this package. Each test has its own namespace.
var cluster *env.Cluster

// images is a registry that the cluster may access without TLS.
var images *registry.Server

func TestMain(m *testing.M) {
	images = registry.Start()
	code := env.Suite{Cluster: &cluster, Options: options, Parallel: "6"}.Run(m)
	images.Close()
	os.Exit(code)
}

func options(dir string) (env.Options, error) {
	catalogs, err := writeCatalogs(dir)
	return env.Options{Catalogs: catalogs, CatalogArgs: []string{"--registry-plain-http=" + images.Host}}, err
}
