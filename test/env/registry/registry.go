// Package registry provides an in-process image registry for tests and builds images of bundles and catalogs from
// directories.
package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// LabelConfigs is the label of a catalog image that names the directory of its file-based catalog.
const LabelConfigs = "operators.operatorframework.io.index.configs.v1"

// Server is a registry that serves plain HTTP on the loopback address.
type Server struct {
	// Host is <address>:<port>.
	Host   string
	server *httptest.Server

	mu       sync.Mutex
	answer   func(w http.ResponseWriter, r *http.Request) bool
	requests []string
}

// Start starts a registry. The registry serves until Close is called.
func Start() *Server {
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := &Server{}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		answer := s.answer
		s.mu.Unlock()
		if answer == nil || !answer(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	s.Host = strings.TrimPrefix(s.server.URL, "http://")
	return s
}

// TB is the part of testing.TB that New uses. The package does not import testing, because the CLI uses it too.
type TB interface {
	Cleanup(func())
}

// New starts a registry. The registry serves until the test ends.
func New(t TB) *Server {
	s := Start()
	t.Cleanup(s.Close)
	return s
}

// Close stops the server and aborts all requests.
func (s *Server) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// Answer sets a function that can answer requests instead of the registry. The function reports whether it has answered
// the request. A nil function removes the current one.
func (s *Server) Answer(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Requests returns, in the form "GET /v2/...", the requests received so far whose path contains the given text.
func (s *Server) Requests(containing string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.requests {
		if strings.Contains(r, containing) {
			out = append(out, r)
		}
	}
	return out
}

// Push pushes an image as NAME:TAG and returns its full name and its digest.
func (s *Server) Push(named string, image v1.Image) (ref, digest string, err error) {
	to, err := name.ParseReference(s.Host + "/" + named)
	if err != nil {
		return "", "", err
	}
	sum, err := image.Digest()
	if err != nil {
		return "", "", err
	}
	return to.String(), sum.String(), remote.Write(to, image)
}

// PushCatalog pushes an image with a file-based catalog as NAME:TAG and returns its full name and its digest.
func (s *Server) PushCatalog(named, content string) (ref, digest string, err error) {
	image, err := Catalog(fstest.MapFS{"catalog.json": {Data: []byte(content)}})
	if err != nil {
		return "", "", err
	}
	return s.Push(named, image)
}

// Catalog returns an image with a file-based catalog in the directory /configs, and the corresponding label.
func Catalog(files fs.FS) (v1.Image, error) {
	layer, err := Layer(files, "configs")
	if err != nil {
		return nil, err
	}
	return Image(map[string]string{LabelConfigs: "/configs"}, layer)
}

// Bundle returns an image of a bundle directory with manifests/ and metadata/.
func Bundle(files fs.FS) (v1.Image, error) {
	layer, err := Layer(files, "")
	if err != nil {
		return nil, err
	}
	return Image(nil, layer)
}

// Image returns an image with labels and layers.
func Image(labels map[string]string, layers ...v1.Layer) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, err
	}
	return mutate.Config(image, v1.Config{Labels: labels})
}

// Layer returns a layer with the given files below a directory of the image.
func Layer(files fs.FS, below string) (v1.Layer, error) {
	var entries []tar.Header
	contents := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, p)
		if err != nil {
			return err
		}
		at := path.Join(below, p)
		contents[at] = data
		entries = append(entries, tar.Header{Name: at, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return Archive(entries, contents)
}

// Archive returns a layer with exactly the given entries, including hostile ones. contents maps names to file contents.
func Archive(entries []tar.Header, contents map[string][]byte) (v1.Layer, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for i := range entries {
		if err := w.WriteHeader(&entries[i]); err != nil {
			return nil, err
		}
		if _, err := w.Write(contents[entries[i].Name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return static.NewLayer(out.Bytes(), types.DockerLayer), nil
}
