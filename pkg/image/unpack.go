package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Unpacked counts the bytes of an image's layers, uncompressed.
type Unpacked struct {
	// Max is the largest sum of all layers.
	Max  int64
	read int64
}

// Layer reads a layer of size bytes uncompressed, whichever way its first bytes say it is compressed. It
// refuses one that becomes more than MaxRatio times its size beyond FreeBytes, and layers beyond Max.
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

// counter fails beyond the limits on unpacked bytes.
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
		return 0, Refuse("a layer that becomes more than %d times its size", MaxRatio)
	case c.all.read > c.all.Max:
		return 0, Refuse("layers of more than %d bytes unpacked", c.all.Max)
	}
	return n, err
}
