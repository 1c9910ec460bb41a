package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Unpacked counts the uncompressed bytes of an image's layers.
type Unpacked struct {
	// Max bounds the total of all layers.
	Max  int64
	read int64
}

// Layer decompresses a layer of size bytes, in the format that its first bytes indicate. It refuses layers that exceed MaxRatio
// beyond FreeBytes, and layers that exceed Max in total.
func (u *Unpacked) Layer(layer io.Reader, size int64) (io.ReadCloser, error) {
	stream, err := decompress(layer)
	if err != nil {
		return nil, err
	}
	return &counter{ReadCloser: stream, all: u, left: FreeBytes + MaxRatio*size}, nil
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

// counter fails when the limits for unpacked bytes are exceeded.
type counter struct {
	io.ReadCloser
	all  *Unpacked
	left int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.left -= int64(n)
	c.all.read += int64(n)
	switch {
	case c.left < 0:
		return 0, Refuse("a layer expands to more than %d times its size", MaxRatio)
	case c.all.read > c.all.Max:
		return 0, Refuse("its layers are larger than %d bytes unpacked", c.all.Max)
	}
	return n, err
}
