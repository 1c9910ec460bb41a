package layer

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

// layer returns a layer of files, each written as NAME=TEXT; a name with a trailing slash is a directory.
func layer(t *testing.T, names ...string) v1.Layer {
	t.Helper()
	var headers []tar.Header
	contents := map[string][]byte{}
	for _, n := range names {
		name, text, _ := strings.Cut(n, "=")
		h := tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o644}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		contents[name] = []byte(text)
		headers = append(headers, h)
	}
	return archive(t, headers, contents)
}

func archive(t *testing.T, headers []tar.Header, contents map[string][]byte) v1.Layer {
	t.Helper()
	out, err := registry.Archive(headers, contents)
	require.NoError(t, err)
	return out
}

func open(t *testing.T, s *registry.Server, labels map[string]string, layers ...v1.Layer) *image.Image {
	t.Helper()
	made, err := registry.Image(labels, layers...)
	require.NoError(t, err)
	ref, _, err := s.Push("catalog:v1", made)
	require.NoError(t, err)
	client, err := image.New(image.Options{Local: true})
	require.NoError(t, err)
	opened, err := client.Open(t.Context(), ref, image.Access{Anywhere: true})
	require.NoError(t, err)
	return opened
}

// extracted returns the extracted files by path.
func extracted(t *testing.T, from *image.Image) (map[string]string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := Extract(t.Context(), from, "configs", Target{Dir: dir}); err != nil {
		return nil, err
	}
	out := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, p))
		out[p] = string(data)
		return err
	}))
	return out, nil
}

func TestUpperLayersHideLowerOnes(t *testing.T) {
	base := layer(t, "usr/", "usr/lib=os", "configs/a/catalog.yaml=a1", "configs/b/catalog.yaml=b1", "configs/b/more.yaml=b2", "configs/c=c1", "configs/d/x=d1")
	for name, row := range map[string]struct {
		over []v1.Layer
		want map[string]string
	}{
		"one layer":             {nil, map[string]string{"a/catalog.yaml": "a1", "b/catalog.yaml": "b1", "b/more.yaml": "b2", "c": "c1", "d/x": "d1"}},
		"files in upper layers": {[]v1.Layer{layer(t, "./configs/c=c2", "configs/e=e2"), layer(t, "/configs/c=c3")}, map[string]string{"a/catalog.yaml": "a1", "b/catalog.yaml": "b1", "b/more.yaml": "b2", "c": "c3", "d/x": "d1", "e": "e2"}},
		"a removed file and a removed folder": {[]v1.Layer{layer(t, "configs/b/.wh.more.yaml", "configs/.wh.d", "configs/.wh.c")},
			map[string]string{"a/catalog.yaml": "a1", "b/catalog.yaml": "b1"}},
		"a replaced folder":          {[]v1.Layer{layer(t, "configs/b/.wh..wh..opq", "configs/b/new=b3")}, map[string]string{"a/catalog.yaml": "a1", "b/new": "b3", "c": "c1", "d/x": "d1"}},
		"a replaced catalog":         {[]v1.Layer{layer(t, ".wh.configs"), layer(t, "configs/x=x4")}, map[string]string{"x": "x4"}},
		"a replaced image":           {[]v1.Layer{layer(t, ".wh..wh..opq", "configs/x=x4")}, map[string]string{"x": "x4"}},
		"a file instead of a folder": {[]v1.Layer{layer(t, "configs/d=file")}, map[string]string{"a/catalog.yaml": "a1", "b/catalog.yaml": "b1", "b/more.yaml": "b2", "c": "c1", "d": "file"}},
		"removed and added again":    {[]v1.Layer{layer(t, "configs/.wh.c"), layer(t, "configs/c=c9")}, map[string]string{"a/catalog.yaml": "a1", "b/catalog.yaml": "b1", "b/more.yaml": "b2", "c": "c9", "d/x": "d1"}},
		"paths outside the root":     {[]v1.Layer{layer(t, "../../configs/c=out", "configs/../../etc/passwd=x")}, map[string]string{"a/catalog.yaml": "a1", "b/catalog.yaml": "b1", "b/more.yaml": "b2", "c": "out", "d/x": "d1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := extracted(t, open(t, registry.New(t), nil, append([]v1.Layer{base}, row.over...)...))
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
}

func TestRefusesUnexpectedEntries(t *testing.T) {
	odd := func(name string, kind byte, link string) v1.Layer {
		return archive(t, []tar.Header{{Name: name, Typeflag: kind, Linkname: link}}, nil)
	}
	for name, row := range map[string]struct {
		layers []v1.Layer
		want   string
	}{
		"113 a symlink":                       {[]v1.Layer{odd("configs/x", tar.TypeSymlink, "/var/run/secrets/kubernetes.io/serviceaccount/token")}, "is not a regular file"},
		"113 a hard link":                     {[]v1.Layer{odd("configs/x", tar.TypeLink, "etc/passwd")}, "is not a regular file"},
		"113 a device":                        {[]v1.Layer{odd("configs/x", tar.TypeChar, "")}, "is not a regular file"},
		"113 a pipe":                          {[]v1.Layer{odd("configs/x", tar.TypeFifo, "")}, "is not a regular file"},
		"113 a symlink instead of the folder": {[]v1.Layer{odd("configs", tar.TypeSymlink, "/etc")}, "is not a directory"},
		"a file instead of the folder":        {[]v1.Layer{layer(t, "configs=x")}, "is not a directory"},
		"an empty folder":                     {[]v1.Layer{layer(t, "configs/", "other/x=y")}, "contains no files"},
		"116 a name that is too long":         {[]v1.Layer{layer(t, "configs/"+strings.Repeat("n", 300)+"=x")}, "file name too long"},
		"a folder in a file":                  {[]v1.Layer{layer(t, "configs/a=x", "configs/a/b=y")}, "file exists"},
		"a thousand layers":                   {slicesOf(layer(t, "x"), MaxLayers+1), "more than 128 layers"},
		"a decompression bomb":                {[]v1.Layer{layer(t, "x="+strings.Repeat("\x00", 64<<20))}, "times its size"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := extracted(t, open(t, registry.New(t), nil, row.layers...))
			require.ErrorIs(t, err, image.ErrImage)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestLimitsFilesBeforeWritingThem(t *testing.T) {
	from := open(t, registry.New(t), nil, layer(t, "configs/a="+strings.Repeat("a", 60), "configs/b="+strings.Repeat("b", 60)))
	dir, taken := t.TempDir(), int64(0)
	take := func(n int64) error { taken += n; return nil }
	err := Extract(t.Context(), from, "configs", Target{Dir: dir, Max: 100, Take: take})
	require.ErrorIs(t, err, image.ErrImage)
	require.ErrorContains(t, err, "are larger than 100 bytes")
	require.EqualValues(t, 60, taken)
	require.NoFileExists(t, filepath.Join(dir, "b"))
	require.NoError(t, Extract(t.Context(), from, "configs", Target{Dir: t.TempDir(), Max: 120}))
}

// Space is reserved for the bytes that were read, not for the size that a tar header declares.
func TestReservesBytesAsTheyArrive(t *testing.T) {
	dir, full := t.TempDir(), errors.New("no space is left")
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	e, taken := newExtraction(root, "configs"), int64(0)
	e.take = func(n int64) error {
		if taken+n > 1<<20 {
			return full
		}
		taken += n
		return nil
	}
	header := &tar.Header{Name: "configs/a", Typeflag: tar.TypeReg, Size: 384 << 20}
	cut := errors.New("the connection is cut")
	require.ErrorIs(t, e.keep("a", header, io.MultiReader(strings.NewReader("a few bytes"), iotest.ErrReader(cut))), cut)
	require.EqualValues(t, len("a few bytes"), taken)

	err = newExtraction(root, "configs").keep("b", &tar.Header{Name: "configs/b", Size: catalog.MaxCatalogBytes + 1}, strings.NewReader("b"))
	require.ErrorIs(t, err, image.ErrImage, "the limit of one catalog applies to the size in the header")
	require.NoFileExists(t, filepath.Join(dir, "b"))

	e.kept = 0
	err = e.keep("c", header, strings.NewReader(strings.Repeat("c", 2<<20)))
	require.ErrorIs(t, err, full)
	require.NotErrorIs(t, err, image.ErrImage)
	info, err := os.Stat(filepath.Join(dir, "c"))
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(1<<20), "refused bytes are not written")
}

func slicesOf(l v1.Layer, n int) []v1.Layer {
	out := make([]v1.Layer, n)
	for i := range out {
		out[i] = l
	}
	return out
}

func TestWrongBytesAreNotAnImageError(t *testing.T) {
	s := registry.New(t)
	from := open(t, s, nil, layer(t, "configs/x=y"))
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			_, _ = w.Write(make([]byte, from.Manifest.Layers[0].Size))
			return true
		}
		return false
	})
	_, err := extracted(t, from)
	require.ErrorContains(t, err, "error verifying")
	require.NotErrorIs(t, err, image.ErrImage)
}

func TestFolder(t *testing.T) {
	for name, row := range map[string]struct {
		label, extract, want string
		err                  error
	}{
		"the label":                  {label: "/configs/", want: "configs"},
		"the label takes precedence": {label: "a/b", extract: "/c", want: "a/b"},
		"the value in the spec":      {extract: "/catalog", want: "catalog"},
		"neither":                    {err: ErrNoCatalog},
		"the image's root":           {label: "/", err: image.ErrImage},
		"a path outside the root":    {label: "/../..", err: image.ErrImage},
	} {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{}
			if row.label != "" {
				labels[LabelConfigs] = row.label
			}
			got, err := Folder(t.Context(), open(t, registry.New(t), labels, layer(t, "x=y")), row.extract)
			require.ErrorIs(t, err, row.err)
			require.Equal(t, row.want, got)
		})
	}
}

func TestRefusesSparseFiles(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	header := &tar.Header{Name: "configs/s.json", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"GNU.sparse.major": "1"}}
	err = newExtraction(root, "configs").entry(header, strings.NewReader(""))
	require.ErrorIs(t, err, image.ErrImage)
	require.ErrorContains(t, err, `entry "configs/s.json" is not a regular file`)
}
