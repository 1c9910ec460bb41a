package silence

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/blockage"
)

var cluster *env.Cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "remit-silence-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	catalogs, err := blockage.WriteCatalogs(dir)
	if err != nil {
		return fail(err)
	}
	if cluster, err = env.Start(context.Background(), env.Options{Catalogs: catalogs}); err != nil {
		return fail(err)
	}
	return cluster.RunTests(m)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "silence:", err)
	return 1
}
