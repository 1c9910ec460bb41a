package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/blockage"
	"github.com/remit-olm/remit/test/env/registry"
)

// world is the cluster of this run, with its catalogs and results. The cluster starts when a benchmark first uses it.
type world struct {
	recorder
	start sync.Once
	err   error
	dir   string
	// catalogs maps images to directories.
	catalogs map[string]string
	// images is the registry of the ClusterCatalogs.
	images *registry.Server
	// tables are printed at the end, because a benchmark's own log is truncated after a few lines.
	tables []string
	// rows are the lines of the table of results, which is printed last.
	rows []row
}

var shared world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if shared.dir, err = os.MkdirTemp("", "remit-bench-"); err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(shared.dir) }()
	before := load()
	code := m.Run()
	for _, t := range shared.tables {
		fmt.Println(t)
	}
	if err := printResults(before); err != nil {
		code = fail(err)
	}
	if shared.cluster == nil {
		return code
	}
	if err := shared.cluster.Stop(); err != nil {
		return fail(err)
	}
	shared.images.Close()
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "bench:", err)
	return 1
}

// cluster returns the cluster that all benchmarks of a run share. Each benchmark has its own namespaces.
func cluster(b testing.TB) *env.Cluster {
	b.Helper()
	shared.start.Do(func() {
		if shared.catalogs, shared.err = writeCatalogs(shared.dir); shared.err == nil {
			shared.images = registry.Start()
			shared.cluster, shared.err = env.Start(context.Background(), env.Options{
				Catalogs: shared.catalogs, Extensions: true, ExtensionArgs: []string{"--registry-plain-http=" + shared.images.Host},
			})
		}
	})
	require.NoError(b, shared.err)
	return shared.cluster
}

// content returns the bundle in the nth catalog.
func content(b testing.TB, n int) *bundle.Bundle {
	b.Helper()
	cluster(b)
	read, err := env.ReadBundle(os.DirFS(shared.catalogs[image(n)]))
	require.NoError(b, err)
	return read
}

// report stores a table that is printed at the end of the run.
func report(title string, lines []string) {
	shared.tables = append(shared.tables, title+"\n  "+strings.Join(lines, "\n  "))
}

// numbers returns the comma-separated numbers in an environment variable or, if it is not set, in a default.
func numbers(b *testing.B, variable, standard string) (out []int) {
	b.Helper()
	for text := range strings.SplitSeq(cmp.Or(os.Getenv(variable), standard), ",") {
		n, err := strconv.Atoi(text)
		require.NoError(b, err, variable)
		out = append(out, n)
	}
	return out
}

// each calls do for the numbers from 0 to n-1, several at the same time.
func each(n, together int, do func(i int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// writeCatalogs creates a directory for each catalog and returns the directories, keyed by image.
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
