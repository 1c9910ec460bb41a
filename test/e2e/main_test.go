package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// cluster is shared by all tests of this package. Each test has its own namespace.
var cluster *env.Cluster

// images is a registry that the cluster may access without TLS.
var images *registry.Server

// parallel is the number of tests that run concurrently. It does not depend on the number of cores, because the tests
// mostly wait.
const parallel = "6"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "remit-e2e-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	catalogs, err := writeCatalogs(dir)
	if err != nil {
		return fail(err)
	}
	images = registry.Start()
	defer images.Close()
	plain := []string{"--registry-plain-http=" + images.Host}
	if cluster, err = env.Start(context.Background(), env.Options{Catalogs: catalogs, CatalogArgs: plain}); err != nil {
		return fail(err)
	}
	return cluster.RunTests(m)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}
