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
	// maxDecoding is how much memory the program catalog may take while it refuses hostile catalogs: what it takes idle, the 256 MiB that
	// all decoding shares, and what the garbage collector has not freed yet.
	maxDecoding = 512 << 20
	// maxHoarded is how much disk the catalogs of two namespaces may take at any moment: 512 MiB each that are kept, and two catalogs each
	// that are read, of 384 MiB in files and 256 MiB in manifests.
	maxHoarded = 2 * (512 + 2*(384+256)) << 20
	// maxLeft is how much more disk may be taken once the catalogs are deleted.
	maxLeft = 64 << 20
)

// stream is a generated file of a layer: begin, and then a repeated text up to the size.
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

// packed returns a layer of such files. The noise in it prevents a refusal because of its compression ratio.
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

// endless is a reader that repeats a text.
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

// carrying returns the files of a catalog with the given number of bundles of 8 MiB each, spread over the given number of files.
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

// catalogProgram returns the process of the program catalog.
func (s *scene) catalogProgram() oracle.Program {
	s.T.Helper()
	programs, err := oracle.Programs(cluster)
	require.NoError(s.T, err)
	for _, p := range programs {
		if p.Name == "catalog" {
			return p
		}
	}
	require.Fail(s.T, "catalog does not run")
	return oracle.Program{}
}

// hoarded returns the disk usage of the program catalog: files in its directory, and deleted files that it has open.
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
	require.NotEmpty(s.T, dir, "the program has no directory")
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it was deleted
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// hoards creates catalogs with images that only differ in a label, each with the layer.
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

// statuses returns the statuses of a namespace's catalogs by name.
func statuses(c assert.TestingT, tn *env.Tenant) map[string]operatorsv1alpha1.CatalogSourceStatus {
	list := &operatorsv1alpha1.CatalogSourceList{}
	assert.NoError(c, cluster.Client.List(tn.T.Context(), list, client.InNamespace(tn.Namespace)))
	out := map[string]operatorsv1alpha1.CatalogSourceStatus{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i].Status
	}
	return out
}

// neighborReady asserts that the catalog of a neighbor becomes ready.
func (s *scene) neighborReady() {
	s.T.Helper()
	neighbor := s.other("neighbor")
	layer, err := registry.Layer(fstest.MapFS{"catalog.yaml": {Data: []byte(forge.Catalog(bundleOf(csv())))}}, "configs")
	require.NoError(s.T, err)
	s.catalogSourceOf(neighbor, "catalog", pushed(s, neighbor.Namespace, layer))
	requireReady(neighbor, "catalog")
}

// tinyEntries publishes 256 MiB of "{}," in each possible way.
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

// hoarders publishes 110 catalogs of 500 MB in two namespaces, in addition to catalogs of which four fit in a namespace.
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

// bounded asserts that the given number of catalogs in a namespace are ready, and that the others report the limit that they exceed.
func (s *scene) bounded(c assert.TestingT, tn *env.Tenant, ready int) {
	for name, status := range statuses(c, tn) {
		switch {
		case strings.HasPrefix(name, "fits") && status.GRPCConnectionState != nil && status.GRPCConnectionState.LastObservedState == "READY":
			ready--
		case strings.HasPrefix(name, "fits"):
			assert.Contains(c, status.Message, "together, at most 512 MiB are allowed")
		default:
			assert.Regexp(c, "files in its folder .* are larger than|already has 50 catalogs in images, the maximum", status.Message)
		}
	}
	assert.Zero(c, ready)
}

func hoards() []row {
	return []row{
		{number: "172", title: "catalog images of 256 MiB of {}, and a neighbor's catalog", holds: p0(), play: tinyEntries},
		{number: "173", title: "100 catalogs of 500 MB contents, and a neighbor's catalog", holds: p0(), play: hoarders},
	}
}
