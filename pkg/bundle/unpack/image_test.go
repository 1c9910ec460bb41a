package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	pkgimage "github.com/remit-olm/remit/pkg/image"
)

// serve runs a local registry. change, if set, receives each request first and reports whether it handled the request.
func serve(t *testing.T, change func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if change == nil || !change(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func push(t *testing.T, host string, layers ...v1.Layer) string {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	require.NoError(t, err)
	return pushImage(t, host, image)
}

func pushImage(t *testing.T, host string, image v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(host + "/bundle:v1")
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, image))
	return ref.String()
}

// file returns the header of a regular file in an archive. The header also contains the text, which archived writes to
// the archive.
func file(path, text string) tar.Header {
	return tar.Header{Name: path, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o644, PAXRecords: map[string]string{"TEST.text": text}}
}

func archived(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		text := e.PAXRecords["TEST.text"]
		delete(e.PAXRecords, "TEST.text")
		require.NoError(t, w.WriteHeader(&e))
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func gzipped(t *testing.T, data []byte) v1.Layer {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return static.NewLayer(out.Bytes(), types.DockerLayer)
}

func zstded(t *testing.T, data []byte) v1.Layer {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return static.NewLayer(w.EncodeAll(data, nil), types.OCILayerZStd)
}

func contents(t *testing.T, files fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		out[path] = string(data)
		return err
	}))
	return out
}

func TestReadsTheFilesOfABundle(t *testing.T) {
	base := archived(t,
		tar.Header{Name: "manifests/", Typeflag: tar.TypeDir, Mode: 0o755},
		file("./manifests/csv.yaml", "old"), file("manifests/crd.yaml", "crd"),
		file("tests/scorecard/config.yaml", "not ours"), tar.Header{Name: "bin/sh", Typeflag: tar.TypeSymlink, Linkname: "/bin/busybox"})
	over := archived(t, file("manifests/csv.yaml", "new"), file("metadata/annotations.yaml", "a"))
	want := map[string]string{"manifests/csv.yaml": "new", "manifests/crd.yaml": "crd", "metadata/annotations.yaml": "a"}
	for name, layers := range map[string][]v1.Layer{
		"gzip":    {gzipped(t, base), gzipped(t, over)},
		"zstd":    {zstded(t, base), zstded(t, over)},
		"neither": {static.NewLayer(base, types.OCIUncompressedLayer), static.NewLayer(over, types.OCIUncompressedLayer)},
	} {
		t.Run(name, func(t *testing.T) {
			ref := push(t, serve(t, nil), layers...)
			image, err := Puller{}.Pull(t.Context(), ref)
			require.NoError(t, err)
			require.Equal(t, want, contents(t, image))

			image, err = Puller{}.Pull(t.Context(), byDigest(t, ref))
			require.NoError(t, err)
			require.Equal(t, want, contents(t, image))
		})
	}
}

// byDigest returns the digest reference of a tagged image.
func byDigest(t *testing.T, ref string) string {
	t.Helper()
	tag, err := name.ParseReference(ref)
	require.NoError(t, err)
	head, err := remote.Head(tag)
	require.NoError(t, err)
	return tag.Context().Digest(head.Digest.String()).String()
}

func TestReadsOneImageOfAnIndex(t *testing.T) {
	host := serve(t, nil)
	add := func(index v1.ImageIndex, text string, platform *v1.Platform) v1.ImageIndex {
		image, err := mutate.AppendLayers(empty.Image, gzipped(t, archived(t, file("manifests/x", text))))
		require.NoError(t, err)
		return mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	pushIndex := func(index v1.ImageIndex) string {
		ref, err := name.ParseReference(host + "/index:v1")
		require.NoError(t, err)
		require.NoError(t, remote.WriteIndex(ref, index))
		return ref.String()
	}
	arm, amd := &v1.Platform{OS: "linux", Architecture: "arm64"}, &v1.Platform{OS: "linux", Architecture: "amd64"}
	first := add(empty.Index, "arm", arm)
	image, err := Puller{}.Pull(t.Context(), pushIndex(first))
	require.NoError(t, err)
	require.Equal(t, "arm", contents(t, image)["manifests/x"])
	image, err = Puller{}.Pull(t.Context(), pushIndex(add(first, "amd", amd)))
	require.NoError(t, err)
	require.Equal(t, "amd", contents(t, image)["manifests/x"])

	_, err = Puller{}.Pull(t.Context(), pushIndex(mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: first})))
	require.ErrorIs(t, err, pkgimage.ErrImage, "115 an index of indexes")
	require.ErrorContains(t, err, "the image's index contains no image")
	var many v1.ImageIndex = empty.Index
	for i := range pkgimage.MaxImages + 1 {
		many = add(many, fmt.Sprint(i), arm)
	}
	_, err = Puller{}.Pull(t.Context(), pushIndex(many))
	require.ErrorContains(t, err, "more than 100 images")
}

func TestRefusesUnexpectedEntries(t *testing.T) {
	entry := func(name string, typeflag byte, link string) []byte {
		return archived(t, tar.Header{Name: name, Typeflag: typeflag, Linkname: link})
	}
	for name, row := range map[string]struct {
		layer []byte
		want  string
	}{
		"113 a path outside the image":               {archived(t, file("manifests/../../etc/x", "x")), "is outside the image"},
		"113 a path outside the image from the root": {archived(t, file("../../etc/x", "x")), "is outside the image"},
		"113 an absolute path":                       {archived(t, file("/manifests/x", "x")), `entry "/manifests/x"`},
		"113 a backslash":                            {archived(t, file(`manifests\..\x`, "x")), "entry"},
		"113 a PAX path outside the image":           {archived(t, tar.Header{Name: "manifests/" + strings.Repeat("a/", 120) + "../../x", Typeflag: tar.TypeReg}), "is outside the image"},
		"116 a control character":                    {archived(t, file("manifests/a\nb", "x")), "entry"},
		"113 a symlink":                              {entry("manifests/x", tar.TypeSymlink, "/var/run/secrets/kubernetes.io/serviceaccount/token"), `"manifests/x" is not a regular file`},
		"113 a symlink instead of the directory":     {entry("manifests", tar.TypeSymlink, "/etc"), "is not a regular file"},
		"113 a hard link":                            {entry("manifests/x", tar.TypeLink, "etc/passwd"), "is not a regular file"},
		"113 a device":                               {entry("manifests/x", tar.TypeChar, ""), "is not a regular file"},
		"113 a block device":                         {entry("metadata/x", tar.TypeBlock, ""), "is not a regular file"},
		"113 a pipe":                                 {entry("manifests/x", tar.TypeFifo, ""), "is not a regular file"},
		"113 a whiteout":                             {archived(t, file("manifests/.wh.csv.yaml", "")), "is a whiteout"},
		"113 a whiteout of the directory":            {archived(t, file(".wh.manifests", "")), "is a whiteout"},
		"113 an opaque directory":                    {archived(t, file("metadata/.wh..wh..opq", "")), "is a whiteout"},
		"113 a sparse file":                          {sparse(t), "is not a regular file"},
		"a file instead of the directory":            {archived(t, file("manifests", "x")), "is not a directory"},
		"a duplicate file":                           {archived(t, file("manifests/x", "a"), file("./manifests/x", "b")), "duplicate file"},
		"not an archive":                             {[]byte("manifests"), "unexpected EOF"},
		"a truncated archive":                        {archived(t, file("manifests/x", strings.Repeat("x", 4096)))[:2048], "unexpected EOF"},
		"112 a million files":                        {manyEntries(t, "manifests/%d", MaxFiles+1), "more than 1100 files"},
		"112 a million entries":                      {manyEntries(t, "x/%d", MaxEntries+1), "more than 10000 entries"},
		"112 a file beyond the limit":                {archived(t, file("manifests/x", strings.Repeat("0123456789abcdef", MaxFileBytes/16+1))), "the bundle's files are larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			for form, layer := range map[string]v1.Layer{"gzip": gzipped(t, row.layer), "zstd": zstded(t, row.layer)} {
				_, err := Puller{}.Pull(t.Context(), push(t, serve(t, nil), layer))
				require.ErrorIs(t, err, pkgimage.ErrImage, form)
				if form == "gzip" || !strings.Contains(row.want, "the bundle's files are larger") { // the zstd layer exceeds the ratio limit first
					require.ErrorContains(t, err, row.want, form)
				}
			}
		})
	}
}

// sparse returns an archive with a file in the format that GNU tar uses for files with holes.
func sparse(t *testing.T) []byte {
	t.Helper()
	data := archived(t, file("manifests/x", "x"))
	data[156] = tar.TypeGNUSparse
	copy(data[257:], "ustar  \x00")
	copy(data[483:], "00000000001\x00")
	for i := 148; i < 156; i++ {
		data[i] = ' '
	}
	sum := 0
	for _, b := range data[:512] {
		sum += int(b)
	}
	copy(data[148:], fmt.Sprintf("%06o\x00 ", sum))
	return data
}

func manyEntries(t *testing.T, pattern string, n int) []byte {
	t.Helper()
	var entries []tar.Header
	for i := range n {
		entries = append(entries, file(fmt.Sprintf(pattern, i), ""))
	}
	return archived(t, entries...)
}

func TestRefusesDecompressionBombs(t *testing.T) {
	const size = 1 << 28
	for name, bomb := range map[string]func() []byte{
		"112 gzip": func() []byte {
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			_, err := io.CopyN(w, zeros{}, size)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			return out.Bytes()
		},
		"112 zstd": func() []byte {
			var out bytes.Buffer
			w, err := zstd.NewWriter(&out)
			require.NoError(t, err)
			_, err = io.CopyN(w, zeros{}, size)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			return out.Bytes()
		},
	} {
		t.Run(name, func(t *testing.T) {
			layer := static.NewLayer(bomb(), types.DockerLayer)
			_, err := Puller{}.Pull(t.Context(), push(t, serve(t, nil), layer))
			require.ErrorIs(t, err, pkgimage.ErrImage)
			require.ErrorContains(t, err, "times its size")
		})
	}
	t.Run("112 data after the archive", func(t *testing.T) {
		tail := append(archived(t, file("manifests/x", "x")), make([]byte, 64<<20)...)
		_, err := Puller{}.Pull(t.Context(), push(t, serve(t, nil), gzipped(t, tail)))
		require.ErrorContains(t, err, "times its size")
	})
	t.Run("112 many layers that exceed the limit together", func(t *testing.T) {
		a := newArchive()
		plain := archived(t, file("x/y", strings.Repeat("x", 30<<20)))
		var err error
		for range MaxUnpackedBytes/(30<<20) + 1 {
			require.NoError(t, err)
			err = a.add(bytes.NewReader(plain), int64(len(plain)))
		}
		require.ErrorContains(t, err, "bytes unpacked")
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// manifest pushes an image whose manifest was modified by change, and returns its reference.
func manifest(t *testing.T, change func(*v1.Manifest)) string {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, gzipped(t, archived(t, file("manifests/x", "x"))))
	require.NoError(t, err)
	m, err := image.Manifest()
	require.NoError(t, err)
	changed := m.DeepCopy()
	change(changed)
	text, err := json.Marshal(changed)
	require.NoError(t, err)
	host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/manifests/v1") {
			return false
		}
		w.Header().Set("Content-Type", string(changed.MediaType))
		_, _ = w.Write(text)
		return true
	})
	return pushImage(t, host, image)
}

func TestRefusesInvalidImages(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*v1.Manifest)
		want   string
	}{
		"115 a layer outside the registry": {func(m *v1.Manifest) { m.Layers[0].URLs = []string{"http://169.254.169.254/"} }, "is not stored in the registry"},
		"115 a foreign layer":              {func(m *v1.Manifest) { m.Layers[0].MediaType = types.DockerForeignLayer }, "is not stored in the registry"},
		"115 500 layers": {func(m *v1.Manifest) {
			for range 500 {
				m.Layers = append(m.Layers, m.Layers[0])
			}
		}, "more than 100 layers"},
		"a layer of an unknown type":    {func(m *v1.Manifest) { m.Layers[0].MediaType = "application/octet-stream" }, `has unsupported type "application/octet-stream"`},
		"a layer beyond the limit":      {func(m *v1.Manifest) { m.Layers[0].Size = MaxCompressedBytes + 1 }, "the image's layers are larger than"},
		"a layer of negative size":      {func(m *v1.Manifest) { m.Layers[0].Size = -1 }, "the image's layers are larger than"},
		"a layer longer than declared":  {func(m *v1.Manifest) { m.Layers[0].Size-- }, "bytes in the image's manifest"},
		"a layer shorter than declared": {func(m *v1.Manifest) { m.Layers[0].Size++ }, "bytes in the image's manifest"},
		"a manifest of an unknown type": {func(m *v1.Manifest) { m.MediaType = "application/vnd.example+json" }, "which is not an image"},
		"a manifest beyond the limit": {func(m *v1.Manifest) {
			m.Annotations = map[string]string{"a": strings.Repeat("x", pkgimage.MaxManifestBytes)}
		}, "the image's manifest is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Puller{}.Pull(t.Context(), manifest(t, row.change))
			require.ErrorContains(t, err, row.want)
			require.ErrorIs(t, err, pkgimage.ErrImage)
		})
	}
	t.Run("115 a missing layer", func(t *testing.T) {
		_, err := Puller{}.Pull(t.Context(), manifest(t, func(m *v1.Manifest) { m.Layers[0].Digest.Hex = strings.Repeat("0", 64) }))
		require.Error(t, err)
	})
}

func TestVerifiesTheRegistrysResponses(t *testing.T) {
	layer := gzipped(t, archived(t, file("manifests/x", "x")))
	other := gzipped(t, archived(t, file("manifests/x", "y")))
	raw, err := layer.Compressed()
	require.NoError(t, err)
	forged, err := io.ReadAll(raw)
	require.NoError(t, err)
	forged[len(forged)-1]++
	digest, err := layer.Digest()
	require.NoError(t, err)

	t.Run("115 a layer that does not match its digest", func(t *testing.T) {
		host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/blobs/"+digest.String()) {
				return false
			}
			_, _ = w.Write(forged)
			return true
		})
		_, err := Puller{}.Pull(t.Context(), push(t, host, layer))
		require.ErrorContains(t, err, "error verifying")
	})
	t.Run("115 a manifest that does not match its digest", func(t *testing.T) {
		image, err := mutate.AppendLayers(empty.Image, other)
		require.NoError(t, err)
		text, err := partial.Manifest(image)
		require.NoError(t, err)
		host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/manifests/sha256:") {
				return false
			}
			w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
			require.NoError(t, json.NewEncoder(w).Encode(text))
			return true
		})
		ref := push(t, host, layer)
		_, err = Puller{}.Pull(t.Context(), ref)
		require.NoError(t, err)
		_, err = Puller{}.Pull(t.Context(), byDigest(t, ref))
		require.ErrorContains(t, err, "does not match")
	})
	t.Run("115 a redirect without TLS", func(t *testing.T) {
		asked := false
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
		defer elsewhere.Close()
		host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return true
		})
		_, err := Puller{}.Pull(t.Context(), push(t, host, layer))
		require.ErrorContains(t, err, "plain HTTP is not allowed")
		require.False(t, asked)
	})
}
