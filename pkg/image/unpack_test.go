package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"slices"
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

// zeros is a compressed archive of a file of zeros, which ends with an error as if the registry stopped sending.
func zeros(t *testing.T, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: size}))
	_, err := io.CopyN(w, zeroReader{}, size)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, packed.Close())
	return out.Bytes()
}

// The records before an entry take more than ten times their bytes while the registry sends the next byte.
func TestLimitsWhatDescribesAnEntry(t *testing.T) {
	archive := func(bytesOfRecords int) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "large", Typeflag: tar.TypeReg, Size: 2 * MaxHeaderBytes}))
		_, err := w.Write(make([]byte, 2*MaxHeaderBytes))
		require.NoError(t, err)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"X.a": strings.Repeat("b", bytesOfRecords)}}))
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	read := func(data []byte) (seen int, err error) {
		u := Unpacked{Max: 1 << 30, MaxEntries: 10}
		err = u.Archive(bytes.NewReader(data), int64(len(data)), func(*tar.Header, io.Reader) error { seen++; return nil })
		return seen, err
	}
	seen, err := read(archive(100 << 10))
	require.NoError(t, err, "the content of a file that is not read does not belong to the next entry")
	require.Equal(t, 2, seen)
	seen, err = read(archive(MaxHeaderBytes))
	require.ErrorIs(t, err, ErrImage)
	require.ErrorContains(t, err, "what describes an entry has more than 131072 bytes")
	require.Equal(t, 1, seen)
}

// A sparse file of a gigabyte has a few bytes in the archive. Its holes take time to skip.
func TestHolesCountAsUnpacked(t *testing.T) {
	records := map[string]string{"GNU.sparse.map": "0,0,1073741824,0", "GNU.sparse.numblocks": "2", "GNU.sparse.size": "1073741824", "GNU.sparse.name": "a"}
	text := ""
	for _, key := range slices.Sorted(maps.Keys(records)) {
		line := " " + key + "=" + records[key] + "\n"
		text += fmt.Sprint(len(line)+2) + line
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "records", Typeflag: tar.TypeReg, Size: int64(len(text))}))
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "a", Typeflag: tar.TypeReg}))
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "b", Typeflag: tar.TypeReg}))
	require.NoError(t, w.Close())
	data := out.Bytes()
	data[156] = tar.TypeXHeader
	checksum := 0
	copy(data[148:156], "        ")
	for _, c := range data[:512] {
		checksum += int(c)
	}
	copy(data[148:156], fmt.Sprintf("%06o\x00 ", checksum))
	for most, want := range map[int64]int{1 << 20: 1, 2 << 30: 2} {
		seen, u := 0, Unpacked{Max: most, MaxEntries: 10}
		err := u.Archive(bytes.NewReader(data), int64(len(data)), func(header *tar.Header, _ io.Reader) error {
			if seen++; seen == 1 {
				require.EqualValues(t, 1<<30, header.Size)
				require.False(t, IsRegular(header))
			}
			return nil
		})
		require.Equal(t, want, seen)
		if want == 2 {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "larger than 1048576 bytes unpacked")
		}
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// The registry claims the size of a layer, and may send less.
func TestALayerExpandsByWhatWasReceived(t *testing.T) {
	const size = FreeBytes + 500<<20
	data := zeros(t, size)
	require.Greater(t, int64(size), FreeBytes+MaxRatio*int64(len(data)+ahead), "it compresses well")
	u := Unpacked{Max: 1 << 40, MaxEntries: 10}
	err := u.Archive(bytes.NewReader(data), 1<<30, func(_ *tar.Header, content io.Reader) error {
		_, err := io.Copy(io.Discard, content)
		return err
	})
	require.ErrorContains(t, err, "a layer expands to more than")
}
