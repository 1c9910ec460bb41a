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

// cluster is the one that all stories of this package share; each has a namespace of its own.
var cluster *env.Cluster

// images is a registry that the cluster may ask without TLS.
var images *registry.Server

// parallel is how many stories run at once: they mostly wait, whatever the number of cores.
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
