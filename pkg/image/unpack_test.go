package image

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A PAX header can have a name of 1 MiB, in 200 compressed bytes.
func TestRefusesLongNames(t *testing.T) {
	long := strings.Repeat("a/", MaxNameBytes/2)
	for name, row := range map[string]struct {
		header tar.Header
		want   string
	}{
		"the longest name":     {tar.Header{Name: long[1:] + "b", Typeflag: tar.TypeReg}, ""},
		"a name":               {tar.Header{Name: long + "b", Typeflag: tar.TypeReg}, "more than 4096 bytes"},
		"a link":               {tar.Header{Name: "x", Linkname: long + "b", Typeflag: tar.TypeSymlink}, "more than 4096 bytes"},
		"a name of a kilobyte": {tar.Header{Name: long[:1024], Typeflag: tar.TypeDir}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var layer bytes.Buffer
			w := tar.NewWriter(&layer)
			require.NoError(t, w.WriteHeader(&row.header))
			require.NoError(t, w.Close())
			seen, u := 0, Unpacked{Max: 1 << 20, MaxEntries: 10}
			err := u.Archive(&layer, int64(layer.Len()), func(*tar.Header, io.Reader) error { seen++; return nil })
			if row.want == "" {
				require.NoError(t, err)
				require.Equal(t, 1, seen)
				return
			}
			require.ErrorIs(t, err, ErrImage)
			require.ErrorContains(t, err, row.want)
			require.Less(t, len(err.Error()), 500, "the name is shortened")
			require.Zero(t, seen)
		})
	}
}
