package layer

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRead reads arbitrary bytes as a layer of a catalog image, and verifies that only regular files are written, and
// only below the target directory.
func FuzzRead(f *testing.F) {
	seed := func(headers ...tar.Header) {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for i := range headers {
			_ = w.WriteHeader(&headers[i])
			_, _ = w.Write(make([]byte, headers[i].Size))
		}
		_ = w.Close()
		f.Add(out.Bytes())
	}
	seed(tar.Header{Name: "configs/a/b.yaml", Typeflag: tar.TypeReg, Size: 10}, tar.Header{Name: "usr/bin/opm", Typeflag: tar.TypeReg, Size: 600})
	seed(tar.Header{Name: "configs/../../x", Typeflag: tar.TypeReg}, tar.Header{Name: "configs/x", Typeflag: tar.TypeSymlink, Linkname: "/etc"})
	seed(tar.Header{Name: "configs/" + strings.Repeat("x", 300), Typeflag: tar.TypeReg, PAXRecords: map[string]string{"path": "configs/../x"}})
	seed(tar.Header{Name: ".wh.configs", Typeflag: tar.TypeReg}, tar.Header{Name: "configs/.wh..wh..opq", Typeflag: tar.TypeReg})
	f.Fuzz(func(t *testing.T, layer []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "files")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		e := newExtraction(root, "configs")
		_ = e.unpacked.Archive(bytes.NewReader(layer), int64(len(layer)), e.entry)
		entries, err := os.ReadDir(parent)
		if err != nil || len(entries) != 1 {
			t.Fatalf("a file was written outside the directory: %v, %v", entries, err)
		}
		err = fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !d.Type().IsRegular() {
				t.Fatalf("%q is not a regular file", p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
