package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Unpacked counts the unpacked bytes and entries of an image's layers, and limits them.
type Unpacked struct {
	// Max is the maximum number of uncompressed bytes of all layers. MaxEntries is the maximum number of entries in
	// their archives.
	Max        int64
	MaxEntries int
	read       int64
	entries    int
}

// Archive reads the archive in a layer to its end, and calls entry for each entry. The compressed layer has
// size bytes, of which its registry may send few. Archive refuses a layer that exceeds MaxRatio beyond FreeBytes, or that exceeds the
// limits of u together with the layers before it. The
// first bytes of the layer determine how it is decompressed.
func (u *Unpacked) Archive(layer io.Reader, size int64, entry func(*tar.Header, io.Reader) error) error {
	in := &received{Reader: layer}
	unpacked, err := decompress(in)
	if err != nil {
		return err
	}
	defer unpacked.Close()
	stream := &counter{Reader: unpacked, all: u, in: in, size: size}
	reader := tar.NewReader(stream)
	for {
		stream.begin()
		header, err := reader.Next()
		stream.end()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if u.entries++; u.entries > u.MaxEntries {
			return Refuse("the image's layers have more than %d entries", u.MaxEntries)
		}
		if max(len(header.Name), len(header.Linkname)) > MaxNameBytes {
			return Refuse("entry %.64q has a name or a link of more than %d bytes", header.Name, MaxNameBytes)
		}
		if err := entry(header, reader); err != nil {
			return err
		}
		if err := u.skip(reader, header); err != nil {
			return err
		}
	}
	// Data after the end of the archive is ignored but counts toward the limits.
	_, err = io.Copy(io.Discard, stream)
	return err
}

// skip reads the rest of an entry, so that the next bytes belong to the header of another one. The holes of a sparse file, which are not in
// the archive, count as uncompressed bytes.
func (u *Unpacked) skip(entry io.Reader, header *tar.Header) error {
	if !isSparse(header) {
		_, err := io.Copy(io.Discard, entry)
		return err
	}
	n, err := io.CopyN(io.Discard, entry, u.Max-u.read+1)
	if u.read += n; err == nil {
		return Refuse("the image's layers are larger than %d bytes unpacked", u.Max)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// IsRegular reports whether an entry is a regular file whose content is completely in the archive. The holes of a sparse file are
// not, so they would not count toward the limits of Unpacked.
func IsRegular(header *tar.Header) bool {
	return header.Typeflag == tar.TypeReg && !isSparse(header)
}

func isSparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return header.Typeflag == tar.TypeGNUSparse
}

func decompress(layer io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(layer, 64<<10)
	magic, err := in.Peek(4)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(in)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		decoder, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}

// counter is a Reader that fails when the limits for uncompressed bytes are exceeded.
type counter struct {
	io.Reader
	all  *Unpacked
	in   *received
	size int64
	read int64
	// inHeader means that the bytes describe an entry, and header is their number.
	inHeader bool
	header   int64
}

// begin and end enclose reading what describes an entry.
func (c *counter) begin() { c.inHeader, c.header = true, 0 }

func (c *counter) end() { c.inHeader = false }

// ahead is the number of bytes of a layer that count as received before they are: the files at its beginning may be compressed better
// than the others.
const ahead = 2 << 20

// received counts the bytes of a layer that have been read. Its registry may claim another size.
type received struct {
	io.Reader

	read int64
}

// Read implements io.Reader.
func (r *received) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read += int64(n)
	return n, err
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	c.all.read += int64(n)
	if c.inHeader {
		c.header += int64(n)
	}
	switch {
	case c.inHeader && c.header > MaxHeaderBytes:
		return 0, Refuse("what describes an entry has more than %d bytes", MaxHeaderBytes)
	case c.read > FreeBytes+MaxRatio*min(c.size, c.in.read+ahead):
		return 0, Refuse("a layer expands to more than %d times its size", MaxRatio)
	case c.all.read > c.all.Max:
		return 0, Refuse("the image's layers are larger than %d bytes unpacked", c.all.Max)
	}
	return n, err
}
