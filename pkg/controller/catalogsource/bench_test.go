package catalogsource

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/corpus"
	"github.com/remit-olm/remit/test/env/registry"
)

const (
	// largeCatalog is the minimum number of bundles in the large catalog. The largest published catalogs contain about
	// that many.
	largeCatalog = 7_000
	// loadEnv is the environment variable that makes the test binary load a catalog. Its value contains the image
	// reference and the cache directory.
	loadEnv = "REMIT_BENCH_LOAD"
)

// loaded contains the measurements from a program that loaded a catalog.
type loaded struct {
	Seconds, PeakMB float64
	Bundles         int
	HeapBytes       uint64
}

func TestMain(m *testing.M) {
	if args := os.Getenv(loadEnv); args != "" {
		if err := loadProgram(strings.Fields(args)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func loadProgram(args []string) error {
	store, err := disk.Open(args[1], 0)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	client, err := image.New(image.Options{Local: true})
	if err != nil {
		return err
	}
	images := newImages(client, store, newBudget("remit"), nil, clock.RealClock{})
	before := heap()
	start := time.Now()
	opened, err := client.Open(context.Background(), args[0], image.Access{Anywhere: true})
	if err != nil {
		return err
	}
	snap, err := images.pull(context.Background(), holder{key: key("catalog")}, images.registryTurn("ns"), opened, "")
	if err != nil {
		return err
	}
	out := loaded{Seconds: time.Since(start).Seconds(), PeakMB: peak(), HeapBytes: heap() - before}
	for _, p := range snap.Packages {
		out.Bundles += len(p.Bundles)
	}
	runtime.KeepAlive(snap)
	return json.NewEncoder(os.Stdout).Encode(out)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// peak returns the maximum resident set size so far, in MB.
func peak() float64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			return n / 1024
		}
	}
	return 0
}

var packageName = regexp.MustCompile(`(?m)^package: (\S+)$`)

// large returns copies of the published catalogs in the corpus with at least largeCatalog bundles in total, and the
// actual number of bundles.
func large(b *testing.B) (fstest.MapFS, int) {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(corpus.Dir(b, "catalogs/v4.20"), "*/catalog.yaml"))
	require.NoError(b, err)
	require.NotEmpty(b, files)
	out := fstest.MapFS{}
	bundles := 0
	for copied := 0; bundles < largeCatalog; copied++ {
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(b, err)
			pkg := packageName.FindStringSubmatch(string(data))[1]
			name := fmt.Sprintf("%s-%d", pkg, copied)
			for _, key := range []string{"package: ", "packageName: ", "name: "} {
				data = bytes.ReplaceAll(data, []byte(key+pkg+"\n"), []byte(key+name+"\n"))
			}
			bundles += bytes.Count(data, []byte("\nschema: olm.bundle"))
			out[name+"/catalog.yaml"] = &fstest.MapFile{Data: data}
		}
	}
	return out, bundles
}

func load(b *testing.B, ref, cache string) loaded {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), loadEnv+"="+ref+" "+cache)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	require.NoError(b, err)
	var out loaded
	require.NoError(b, json.Unmarshal(text, &out))
	return out
}

// BenchmarkCatalogImage loads a catalog of 7,000 bundles from a local registry, each time in a separate process: first
// with an empty cache directory, then with the data that the first process stored.
func BenchmarkCatalogImage(b *testing.B) {
	files, bundles := large(b)
	s := registry.New(b)
	made, err := registry.Catalog(files)
	require.NoError(b, err)
	ref, _, err := s.Push("catalog:v1", made)
	require.NoError(b, err)
	cache := b.TempDir()
	report := func(b *testing.B, got loaded) {
		require.Equal(b, bundles, got.Bundles)
		b.ReportMetric(got.Seconds, "s/load")
		b.ReportMetric(got.PeakMB, "MB-peak-RSS")
		b.ReportMetric(float64(got.HeapBytes)/float64(got.Bundles), "B-steady/bundle")
		b.ReportMetric(0, "ns/op")
	}
	b.Run(fmt.Sprintf("cold-%d-bundles", bundles), func(b *testing.B) {
		for range b.N {
			require.NoError(b, os.RemoveAll(cache))
			report(b, load(b, ref, cache))
		}
	})
	b.Run(fmt.Sprintf("warm-%d-bundles", bundles), func(b *testing.B) {
		for range b.N {
			report(b, load(b, ref, cache))
		}
	})
}
