package unpack

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// FuzzArchive reads arbitrary bytes as a layer and verifies that files are kept only in a bundle's directories and
// within the limits.
func FuzzArchive(f *testing.F) {
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
	seed(tar.Header{Name: "manifests/a.yaml", Typeflag: tar.TypeReg, Size: 10}, tar.Header{Name: "./metadata/b", Typeflag: tar.TypeReg, Size: 600})
	seed(tar.Header{Name: "manifests/../../x", Typeflag: tar.TypeReg}, tar.Header{Name: "manifests/x", Typeflag: tar.TypeSymlink, Linkname: "/etc"})
	seed(tar.Header{Name: "manifests/" + strings.Repeat("x", 300), Typeflag: tar.TypeReg, PAXRecords: map[string]string{"path": "../x"}})
	seed(tar.Header{Name: ".wh.manifests", Typeflag: tar.TypeReg}, tar.Header{Name: "manifests/.wh..wh..opq", Typeflag: tar.TypeReg})
	f.Add([]byte{0x1f, 0x8b})
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, layer []byte) {
		a := newArchive()
		_ = a.add(bytes.NewReader(layer), int64(len(layer)))
		kept := 0
		for name, file := range a.files {
			if !fs.ValidPath(name) || path.Clean(name) != name || !inBundle(name) || name == dirManifests || name == dirMetadata {
				t.Fatalf("%q was kept", name)
			}
			kept += len(file.Data)
		}
		if kept > MaxFileBytes || len(a.files) > MaxFiles {
			t.Fatalf("%d bytes in %d files were kept", kept, len(a.files))
		}
	})
}
