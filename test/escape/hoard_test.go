package escape

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

const (
	// maxDecoding is the maximum memory that the catalog program may use while it refuses hostile catalogs. It covers the
	// idle usage, the 256 MiB that all decoding shares, and garbage that has not been collected yet.
	maxDecoding = 512 << 20
	// maxHoarded is the maximum disk space that the catalogs of two namespaces may use at any time: for each namespace,
	// 512 MiB of stored catalogs, plus 384 MiB of files and 256 MiB of manifests for each of two catalogs that are being
	// read.
	maxHoarded = 2 * (512 + 2*(384+256)) << 20
	// maxLeft is the maximum disk space that may remain in use after the catalogs have been deleted, in addition to the
	// initial usage.
	maxLeft = 64 << 20
)

// stream describes a generated file in a layer: the texts in begin, followed by repetitions of text up to size bytes.
type stream struct {
	name  string
	begin []string
	text  string
	size  int64
}

func (f stream) reader() io.Reader {
	var all []io.Reader
	for _, text := range f.begin {
		all = append(all, strings.NewReader(text))
	}
	return io.MultiReader(append(all, &endless{text: f.text})...)
}

// packed returns a layer with the generated files. The layer also contains random data, because Remit refuses layers
// with a high compression ratio.
func (s *scene) packed(files ...stream) v1.Layer {
	s.T.Helper()
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	require.NoError(s.T, err)
	archive := tar.NewWriter(zip)
	noise := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	put := func(name string, size int64, content io.Reader) {
		require.NoError(s.T, archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: size}))
		_, err := io.CopyN(archive, content, size)
		require.NoError(s.T, err)
	}
	for _, f := range files {
		put("configs/"+f.name, f.size, f.reader())
	}
	put("noise", int64(len(noise)), bytes.NewReader(noise))
	require.NoError(s.T, archive.Close())
	require.NoError(s.T, zip.Close())
	return static.NewLayer(out.Bytes(), types.DockerLayer)
}

// endless is a reader that repeats the same text forever.
type endless struct {
	text string
	at   int
}

// Read implements io.Reader.
func (e *endless) Read(p []byte) (int, error) {
	for n := 0; n < len(p); {
		copied := copy(p[n:], e.text[e.at:])
		n += copied
		e.at = (e.at + copied) % len(e.text)
	}
	return len(p), nil
}

// carrying returns the files of a catalog: an index, and the given number of files with bundles of 8 MiB each, distributed
// evenly.
func carrying(bundles, files int) []stream {
	var index entries
	index.pkg(probe, make([][]any, bundles)...)
	data := base64.StdEncoding.EncodeToString([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"` + strings.Repeat("a", 8<<20) + `"}}`))
	out := []stream{{name: "index.json"}}
	for n := range files {
		out = append(out, stream{name: fmt.Sprint("bundles-", n, ".json")})
	}
	n := 0
	for line := range strings.Lines(index.out.String()) {
		before, after, isBundle := strings.Cut(line, `"properties":[`)
		if !isBundle {
			out[0].begin = append(out[0].begin, line)
			continue
		}
		at := &out[1+n%files]
		at.begin = append(at.begin, before, `"properties":[{"type":"olm.bundle.object","value":{"data":"`, data, `"}},`, after)
		n++
	}
	for i := range out {
		for _, text := range out[i].begin {
			out[i].size += int64(len(text))
		}
	}
	return out
}

// catalogProgram returns the process of the catalog program.
func (s *scene) catalogProgram() oracle.Program {
	s.T.Helper()
	programs, err := oracle.Programs(cluster)
	require.NoError(s.T, err)
	for _, p := range programs {
		if p.Name == "catalog" {
			return p
		}
	}
	require.Fail(s.T, "the catalog program is not running")
	return oracle.Program{}
}

// hoarded returns the disk space that the catalog program uses, including deleted files that it still has open.
func (s *scene) hoarded() int64 {
	s.T.Helper()
	fds := fmt.Sprintf("/proc/%d/fd", s.catalogProgram().PID)
	open, err := os.ReadDir(fds)
	require.NoError(s.T, err)
	dir, total := "", int64(0)
	for _, fd := range open {
		path := filepath.Join(fds, fd.Name())
		target, err := os.Readlink(path)
		if err != nil || !strings.Contains(target, "/remit-catalog-") {
			continue
		}
		if filepath.Base(target) == "lock" {
			dir = filepath.Dir(target)
		}
		if info, err := os.Stat(path); err == nil && strings.HasSuffix(target, " (deleted)") {
			total += info.Size()
		}
	}
	require.NotEmpty(s.T, dir, "the directory of the program was not found")
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // the file was deleted
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// hoards creates n catalogs in the tenant's namespace. Their images contain the same layer and differ only in a label.
func (s *scene) hoards(tn *env.Tenant, kind string, n int, layer v1.Layer) {
	s.T.Helper()
	for i := range n {
		name := fmt.Sprint(kind, "-", i)
		made, err := registry.Image(map[string]string{registry.LabelConfigs: "/configs", "name": name}, layer)
		require.NoError(s.T, err)
		ref, _, err := images.Push(fmt.Sprintf("%s/%s:v%d", tn.Namespace, kind, i), made)
		require.NoError(s.T, err)
		s.catalogSourceOf(tn, name, ref)
	}
}

// statuses returns the statuses of a namespace's catalogs, keyed by name.
func statuses(c assert.TestingT, tn *env.Tenant) map[string]operatorsv1alpha1.CatalogSourceStatus {
	list := &operatorsv1alpha1.CatalogSourceList{}
	assert.NoError(c, cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
	out := map[string]operatorsv1alpha1.CatalogSourceStatus{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Status
	}
	return out
}

// neighborReady creates a catalog in a neighbor's namespace and asserts that it becomes ready.
func (s *scene) neighborReady() {
	s.T.Helper()
	neighbor := s.other("neighbor")
	layer, err := registry.Layer(fstest.MapFS{"catalog.yaml": {Data: []byte(forge.Catalog(bundleOf(csv())))}}, "configs")
	require.NoError(s.T, err)
	s.catalogSourceOf(neighbor, "catalog", pushed(s, neighbor.Namespace, layer))
	requireReady(neighbor, "catalog")
}

// tinyEntries publishes catalogs with 256 MiB of "{},", at the top level and as properties, in JSON and in YAML. It
// asserts that all of them are refused and that the catalog program uses less memory than maxDecoding.
func tinyEntries(s *scene) {
	s.T.Helper()
	const size = 256 << 20
	files := map[string]stream{
		"plain":      {name: "catalog.json"},
		"plain-yaml": {name: "catalog.yaml", begin: []string{"- "}},
		"json":       {name: "catalog.json", begin: []string{`{"schema":"olm.bundle","package":"probe","name":"probe.v1","properties":[`}},
		"yaml":       {name: "catalog.yaml", begin: []string{"schema: olm.bundle\npackage: probe\nname: probe.v1\nproperties: ["}},
	}
	for name, f := range files {
		f.text, f.size = "{},", size
		s.catalogSourceOf(s.Tenant, name, pushed(s, s.Namespace+"/"+name, s.packed(f)))
	}
	s.neighborReady()
	words := map[string]string{"plain": "no schema", "plain-yaml": "use JSON", "json": "larger than", "yaml": "use JSON"}
	s.Eventually(func(c *assert.CollectT) {
		for name, status := range statuses(c, s.Tenant) {
			assert.Contains(c, status.Message, words[name])
			assert.Equal(c, operatorsv1alpha1.CatalogSourceRegistryServerError, status.Reason)
			assert.Less(c, len(status.Message), maxMessage)
		}
	})
	require.Less(s.T, s.catalogProgram().Peak()>>20, maxDecoding>>20, "MiB of memory")
}

// hoarders publishes 110 catalogs of 500 MB in two namespaces, in addition to six smaller catalogs in the first one, of
// which only four fit. It asserts that disk usage stays below maxHoarded.
func hoarders(s *scene) {
	s.T.Helper()
	second, before := s.other("second"), s.hoarded()
	fits := pushed(s, s.Namespace, s.packed(carrying(14, 1)...))
	for i := range 6 {
		s.catalogSourceOf(s.Tenant, fmt.Sprint("fits-", i), fits)
	}
	s.Eventually(func(c *assert.CollectT) { s.bounded(c, s.Tenant, 4) })
	large, spread := s.packed(carrying(47, 1)...), s.packed(carrying(47, 5)...)
	s.hoards(s.Tenant, "spread", 3, spread)
	s.hoards(s.Tenant, "large", 97, large)
	s.hoards(second, "spread", 1, spread)
	s.hoards(second, "large", 9, large)
	s.neighborReady()
	most := int64(0)
	s.Eventually(func(c *assert.CollectT) {
		most = max(most, s.hoarded())
		s.bounded(c, s.Tenant, 4)
		s.bounded(c, second, 0)
	})
	s.T.Logf("at most %d MiB of disk, %d MiB now", most>>20, s.hoarded()>>20)
	require.Less(s.T, most-before, int64(maxHoarded), "bytes on disk while they are read")
	for _, tn := range []*env.Tenant{s.Tenant, second} {
		require.NoError(s.T, cluster.Client.DeleteAllOf(s.T.Context(), &operatorsv1alpha1.CatalogSource{}, client.InNamespace(tn.Namespace)))
	}
	s.Eventually(func(c *assert.CollectT) {
		assert.Less(c, s.hoarded()-before, int64(maxLeft), "bytes on disk afterwards")
	})
}

// bounded asserts that the given number of catalogs in a namespace are ready, and that the others report which limit
// they exceed.
func (s *scene) bounded(c assert.TestingT, tn *env.Tenant, ready int) {
	for name, status := range statuses(c, tn) {
		switch {
		case strings.HasPrefix(name, "fits") && status.GRPCConnectionState != nil && status.GRPCConnectionState.LastObservedState == "READY":
			ready--
		case strings.HasPrefix(name, "fits"):
			assert.Contains(c, status.Message, "together, at most 512 MiB are allowed")
		default:
			assert.Regexp(c, "files in catalog directory .* are larger than|already has 50 catalogs that are read from images, which is the limit", status.Message)
		}
	}
	assert.Zero(c, ready)
}

func hoards() []row {
	return []row{
		{number: "172", title: "catalog images with 256 MiB of {}, and a neighbor's catalog", holds: p0(), play: tinyEntries},
		{number: "173", title: "100 catalogs with 500 MB of content, and a neighbor's catalog", holds: p0(), play: hoarders},
	}
}
