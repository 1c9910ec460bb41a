package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

// cluster is the one that all stories of this package share; each has a namespace of its own.
var cluster *env.Cluster

// sampleImage is the catalog that serves the sample operator.
const sampleImage = "catalogs.test/sample"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "remit-e2e-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.CopyFS(filepath.Join(dir, "sample"), bundle.FS().(fs.FS)); err != nil {
		return fail(err)
	}
	cluster, err = env.Start(context.Background(), env.Options{Without: os.Getenv("E2E_WITHOUT"),
		Catalogs: map[string]string{sampleImage: filepath.Join(dir, "sample")},
	})
	if err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}
