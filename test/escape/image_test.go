package escape

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing/fstest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env/registry"
	"github.com/remit-olm/remit/test/escape/forge"
)

// layerOf returns a layer with files, given as NAME=TEXT, and links, given as NAME->TARGET.
func (s *scene) layerOf(entries ...string) v1.Layer {
	s.T.Helper()
	var headers []tar.Header
	contents := map[string][]byte{}
	for _, e := range entries {
		if name, target, ok := strings.Cut(e, "->"); ok {
			headers = append(headers, tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target})
			continue
		}
		name, text, _ := strings.Cut(e, "=")
		contents[name] = []byte(text)
		headers = append(headers, tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))})
	}
	layer, err := registry.Archive(headers, contents)
	require.NoError(s.T, err)
	return layer
}

// bomb returns a compressed layer that expands to 1 GiB of zeros, a thousand times its size.
func (s *scene) bomb() v1.Layer {
	s.T.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := io.CopyN(w, zeros{}, 1<<30)
	require.NoError(s.T, err)
	require.NoError(s.T, w.Close())
	return static.NewLayer(out.Bytes(), types.DockerLayer)
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// push pushes an image to the scene's repository and returns its reference.
func (s *scene) push(layers ...v1.Layer) string {
	s.T.Helper()
	made, err := registry.Image(map[string]string{registry.LabelConfigs: "/configs"}, layers...)
	require.NoError(s.T, err)
	ref, _, err := images.Push(s.Namespace+":v1", made)
	require.NoError(s.T, err)
	return ref
}

// bundleImage publishes a catalog whose bundle is in the image with the given reference, and subscribes to it.
func (s *scene) bundleImage(ref string, edit ...func(*operatorsv1alpha1.SubscriptionSpec)) {
	s.T.Helper()
	s.group(s.Namespace)
	s.publishText(strings.Replace(forge.Catalog(&forge.Bundle{Package: probe, Name: probeCSV}), `"schema":"olm.bundle"`, fmt.Sprintf(`"schema":"olm.bundle","image":%q`, ref), 1))
	s.subscribe(edit...)
}

// catalogImage subscribes to a bundle in a catalog image. It asserts that the CatalogSource's message contains the
// words and that the Subscription reports that the catalog's content is not available.
func (s *scene) catalogImage(ref string, words ...string) {
	s.T.Helper()
	s.group(s.Namespace)
	s.catalogSource("catalog", operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Image: ref})
	s.subscribe()
	s.catalogSays(words...)
	s.refused("its content is not available")
}

// changed pushes a bundle image and makes the registry serve a changed manifest for it. It returns the image's
// reference.
func (s *scene) changed(change func(*v1.Manifest)) string {
	s.T.Helper()
	made, err := registry.Image(nil, s.layerOf("manifests/csv.yaml="+csv().String()))
	require.NoError(s.T, err)
	ref, _, err := images.Push(s.Namespace+":v1", made)
	require.NoError(s.T, err)
	manifest, err := made.Manifest()
	require.NoError(s.T, err)
	other := manifest.DeepCopy()
	change(other)
	text, err := json.Marshal(other)
	require.NoError(s.T, err)
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/manifests/v1") {
			return false
		}
		w.Header().Set("Content-Type", string(other.MediaType))
		_, _ = w.Write(text)
		return true
	})
	return ref
}

// answer makes f handle requests for the scene's images until the row ends. If f returns false, the registry answers
// the request itself.
func (s *scene) answer(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.T.Helper()
	images.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/"+s.Namespace+"/") && f(w, r)
	})
	s.T.Cleanup(func() { images.Answer(nil) })
}

// listening listens on a loopback address and counts the connections to it.
func (s *scene) listening() (address string, dialed *atomic.Int32) {
	s.T.Helper()
	listener, err := (&net.ListenConfig{}).Listen(s.T.Context(), "tcp", "127.0.0.1:0")
	require.NoError(s.T, err)
	s.T.Cleanup(func() { _ = listener.Close() })
	dialed = &atomic.Int32{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			dialed.Add(1)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String(), dialed
}

func imageRows() []row {
	rows := []row{
		{number: "91p", title: "a catalog image at the machine's loopback address", holds: p0(), play: func(s *scene) {
			address, dialed := s.listening()
			s.catalogImage(address+"/catalog:v1", "is a loopback or link-local address")
			s.settle()
			require.Zero(s.T, dialed.Load())
		}},
		{number: "91q", title: "a catalog image at the address of a cloud's metadata service", holds: p0(), play: func(s *scene) {
			s.catalogImage("169.254.169.254:80/latest/meta-data:v1", "is a loopback or link-local address")
		}},
		{number: "91r", title: "a registry whose error page contains a secret", holds: p0(), play: func(s *scene) {
			ref := s.push(s.layerOf("configs/x=x"))
			s.answer(func(w http.ResponseWriter, _ *http.Request) bool {
				http.Error(w, secretValue, http.StatusForbidden)
				return true
			})
			s.catalogImage(ref, "403")
		}},
		{number: "91s", title: "a bundle image at the machine's loopback address", holds: p0(), play: func(s *scene) {
			address, dialed := s.listening()
			s.bundleImage(address + "/bundle:v1")
			s.refused("is a loopback or link-local address")
			s.settle()
			require.Zero(s.T, dialed.Load())
		}},
		{number: "95", title: "a tag that moves between resolution and approval", holds: p0(), play: func(s *scene) {
			ref := s.push(s.layerOf("manifests/csv.yaml=" + csv().String()))
			s.bundleImage(ref, func(spec *operatorsv1alpha1.SubscriptionSpec) {
				spec.InstallPlanApproval = operatorsv1alpha1.ApprovalManual
			})
			ip := s.unapproved()
			s.push(s.layerOf("manifests/csv.yaml=" + csv().Set("evil", "spec", "displayName").String()))
			s.approve(s.mallory(), ip)
			require.Equal(s.T, "Probe", s.Succeeded(probeCSV).Spec.DisplayName)
		}},
		{number: "112", title: "a decompression bomb as a bundle image", holds: p0(), play: func(s *scene) {
			s.bundleImage(s.push(s.bomb()))
			s.refused("bytes unpacked")
		}},
		{number: "112a", title: "a decompression bomb as a catalog image", holds: p0(), play: func(s *scene) { s.catalogImage(s.push(s.bomb()), "times its size") }},
		{number: "112b", title: "a bundle image with many tiny files", holds: p0(), play: func(s *scene) {
			files := make([]string, 20_000)
			for i := range files {
				files[i] = fmt.Sprintf("manifests/%d.yaml=x", i)
			}
			s.bundleImage(s.push(s.layerOf(files...)))
			s.refused("more than 1100 files")
		}},
		{number: "112c", title: "an endless bundle image", holds: p0(), play: func(s *scene) {
			ref := s.push(s.layerOf("manifests/csv.yaml=" + csv().String()))
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet {
					return false
				}
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 1<<16)); err != nil {
						break
					}
				}
				return true
			})
			s.bundleImage(ref)
			s.refused("bytes")
		}},
		{number: "115", title: "an image with a layer at another address", holds: p0(), play: func(s *scene) {
			address, dialed := s.listening()
			s.bundleImage(s.changed(func(m *v1.Manifest) { m.Layers[0].URLs = []string{"http://" + address + "/layer"} }))
			s.refused("is not stored in the registry")
			require.Zero(s.T, dialed.Load())
		}},
		{number: "115a", title: "an image with 500 layers", holds: p0(), play: func(s *scene) {
			s.bundleImage(s.changed(func(m *v1.Manifest) {
				for range 500 {
					m.Layers = append(m.Layers, m.Layers[0])
				}
			}))
			s.refused("more than 100 layers")
		}},
		{number: "115b", title: "an image with a layer that does not match its digest", holds: p0(), play: func(s *scene) {
			ref := s.push(s.layerOf("manifests/csv.yaml=" + csv().String()))
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
					return false
				}
				_, _ = io.WriteString(w, "another layer")
				return true
			})
			s.bundleImage(ref)
			s.refused("error verifying")
		}},
		{number: "115c", title: "a registry that redirects to this machine", holds: p0(), play: func(s *scene) {
			address, dialed := s.listening()
			ref := s.push(s.layerOf("manifests/csv.yaml=" + csv().String()))
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
					http.Redirect(w, r, "https://"+address+"/", http.StatusTemporaryRedirect)
					return true
				}
				return false
			})
			s.bundleImage(ref)
			s.refused("is a loopback or link-local address")
			require.Zero(s.T, dialed.Load())
		}},
	}
	for i, r := range []struct{ title, entry, words string }{
		{"a path that leads outside the image", "manifests/../../../etc/x=x", "is outside the image"},
		{"an absolute path", "/manifests/x=x", "entry"},
		{"a link to a token", "manifests/x->/var/run/secrets/kubernetes.io/serviceaccount/token", "not a regular file"},
		{"a whiteout", "manifests/.wh.csv.yaml=", "is a whiteout"},
	} {
		rows = append(rows, row{number: "113" + letter(i), title: "a bundle image with " + r.title, holds: p0(), play: func(s *scene) {
			s.bundleImage(s.push(s.layerOf("manifests/csv.yaml="+csv().String(), r.entry)))
			s.refused(r.words)
		}})
	}
	rows = append(rows, row{number: "113z", title: "a catalog image with a link to a token", holds: p0(), play: func(s *scene) {
		s.catalogImage(s.push(s.layerOf("configs/x->/var/run/secrets/kubernetes.io/serviceaccount/token")), "not a regular file")
	}})
	good := forge.Catalog(bundleOf(csv()))
	for i, r := range []struct{ title, text, words string }{
		{"a duplicate package", good + good, "duplicate package"},
		{"an entry without a bundle", strings.Replace(good, `"entries":[{"name":"`+probeCSV, `"entries":[{"name":"missing"},{"name":"`+probeCSV, 1), "missing"},
		{"an invalid version", strings.Replace(good, `"version":"1.0.0"`, `"version":"one"`, 1), "one"},
		{"a default channel that does not exist", strings.Replace(good, `"defaultChannel":"`+forge.Channel, `"defaultChannel":"gone`, 1), "gone"},
		{"no catalog", "hello", "catalog.yaml"},
	} {
		rows = append(rows, row{number: "92" + letter(20+i), title: "a catalog image with " + r.title, holds: p0(), play: func(s *scene) {
			layer, err := registry.Layer(fstest.MapFS{"catalog.yaml": {Data: []byte(r.text)}}, "configs")
			require.NoError(s.T, err)
			s.catalogImage(s.push(layer), r.words)
		}})
	}
	return rows
}
