package bench

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/blockage"
)

// world is the cluster of this run. It starts when the first benchmark asks for it.
type world struct {
	start   sync.Once
	cluster *env.Cluster
	err     error
	dir     string
	// catalogs are directories by image.
	catalogs map[string]string
	// tables are printed at the end: a benchmark's own log is cut at a few lines.
	tables []string
	// sent are the requests in the first bytes of the audit log, up to read.
	sent requests
	read int64
}

var shared world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if shared.dir, err = os.MkdirTemp("", "remit-bench-"); err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(shared.dir) }()
	code := m.Run()
	for _, t := range shared.tables {
		fmt.Println(t)
	}
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "bench:", err)
	return 1
}

// cluster returns the one that all benchmarks of a run share; each has namespaces of its own.
func cluster(b testing.TB) *env.Cluster {
	b.Helper()
	shared.start.Do(func() {
		if shared.catalogs, shared.err = writeCatalogs(shared.dir); shared.err == nil {
			shared.cluster, shared.err = env.Start(context.Background(), env.Options{Catalogs: shared.catalogs})
		}
	})
	require.NoError(b, shared.err)
	return shared.cluster
}

// content is that of the nth catalog.
func content(b testing.TB, n int) *bundle.Bundle {
	b.Helper()
	cluster(b)
	read, err := env.ReadBundle(os.DirFS(shared.catalogs[image(n)]))
	require.NoError(b, err)
	return read
}

// report keeps a table for the end of the run.
func report(title string, lines []string) {
	shared.tables = append(shared.tables, title+"\n  "+strings.Join(lines, "\n  "))
}

// writeCatalogs makes a directory for each catalog and returns them by image.
func writeCatalogs(dir string) (map[string]string, error) {
	out := map[string]string{}
	for n := range installs + 1 {
		v, err := env.NewVariant()
		if err != nil {
			return nil, err
		}
		small(v, n)
		out[image(n)] = filepath.Join(dir, fmt.Sprint("catalog-", n))
		if err := v.Write(out[image(n)]); err != nil {
			return nil, err
		}
	}
	blockages, err := blockage.WriteCatalogs(dir)
	maps.Copy(out, blockages)
	return out, err
}
