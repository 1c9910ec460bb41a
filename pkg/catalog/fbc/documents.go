package fbc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"unicode"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/manifest"
)

// smallDocument is the size up to which documents are read without waiting for memory. A larger document waits for the
// maximum memory of one document.
const smallDocument = 1 << 20

// chunk is the read size for JSON files.
const chunk = 1 << 16

// documents reads the documents of a file in order, within the limits. Only one of them is in memory at a time.
type documents struct {
	Loader
	// all counts the bytes of YAML in the whole catalog.
	all *atomic.Int64
	add func(document []byte) error
	// in is the underlying reader.
	in *metered
}

// metered limits the length of each document: the file can be read only up to the offset in allowed.
type metered struct {
	io.Reader
	read, begun, allowed int64
	// large, if set, is called once when a document exceeds smallDocument.
	large   func() error
	tooLong func() error
	last    byte
}

// Read implements io.Reader.
func (m *metered) Read(p []byte) (int, error) {
	if m.read > m.allowed {
		return 0, m.tooLong()
	}
	if m.large != nil && m.read-m.begun > smallDocument {
		if err := m.large(); err != nil {
			return 0, err
		}
		m.large = nil
	}
	n, err := m.Reader.Read(p[:min(len(p), chunk)])
	m.read += int64(n)
	if n > 0 {
		m.last = p[n-1]
	}
	return n, err
}

// read decodes documents as JSON until it encounters one that is not JSON. It decodes the rest as YAML.
func (d *documents) read(ctx context.Context, file io.Reader) error {
	buffered := bufio.NewReaderSize(file, 1<<16)
	if first, err := firstByte(buffered); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	} else if first != '{' {
		return d.yaml(ctx, buffered)
	}
	rest, err := d.json(ctx, buffered)
	if rest == nil || err == nil {
		return err
	}
	if next, failed := firstByte(rest); failed == nil && next == '-' || d.in.begun == 0 {
		return d.yaml(ctx, rest)
	}
	return err
}

// firstByte peeks at the first byte that is not a space.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if !unicode.IsSpace(rune(b)) {
			return b, r.UnreadByte()
		}
	}
}

// json decodes JSON documents. If it encounters data that is not JSON, rest is the remaining input.
func (d *documents) json(ctx context.Context, file io.Reader) (rest *bufio.Reader, err error) {
	d.in = &metered{Reader: file, allowed: d.Limits.JSONBytes, tooLong: func() error {
		return fmt.Errorf("a document is larger than %d bytes", d.Limits.JSONBytes)
	}}
	values := newValues(d.in)
	var document json.RawMessage
	for {
		end := d.whenLarge(ctx)
		err := values.decoder.Decode(&document)
		var syntax *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			end()
			return nil, nil
		case errors.As(err, &syntax):
			end()
			return bufio.NewReader(values.rest()), err
		case err == nil:
			err = d.decode(ctx, document, catalog.JSONCost(document))
		}
		if cap(document) > smallDocument {
			document = nil
			values.release()
		}
		end()
		if err == nil {
			err = d.between(ctx)
		}
		if err != nil {
			return nil, err
		}
		d.in.begun = values.offset()
		d.in.allowed = d.in.begun + d.Limits.JSONBytes
	}
}

// values decodes the values of a JSON file in order.
type values struct {
	in      *metered
	decoder *json.Decoder
	// begun is the file offset at which the decoder started. The decoder reads from ahead first, and then from in.
	begun int64
	ahead *bytes.Reader
}

func newValues(in *metered) *values {
	return &values{in: in, decoder: json.NewDecoder(in), ahead: bytes.NewReader(nil)}
}

func (v *values) offset() int64 { return v.begun + v.decoder.InputOffset() }

// release frees the decoder's buffer, which is as large as the largest value that it decoded.
func (v *values) release() {
	v.begun = v.offset()
	next, _ := io.ReadAll(io.MultiReader(v.decoder.Buffered(), v.ahead)) // reading from memory cannot fail
	v.ahead = bytes.NewReader(next)
	v.decoder = json.NewDecoder(io.MultiReader(v.ahead, v.in))
}

// rest returns the input that was not decoded, without the limits of in.
func (v *values) rest() io.Reader {
	return io.MultiReader(v.decoder.Buffered(), v.ahead, v.in.Reader)
}

// yaml decodes documents that are separated by "---" lines.
func (d *documents) yaml(ctx context.Context, file io.Reader) error {
	const ahead = 1 << 12 // the reader may have buffered this much of the next document
	d.in = &metered{Reader: file, allowed: d.Limits.YAMLBytes + ahead, tooLong: func() error {
		return fmt.Errorf("a YAML document is larger than %d bytes; use JSON", d.Limits.YAMLBytes)
	}}
	reader := utilyaml.NewYAMLReader(bufio.NewReaderSize(&lineEnded{in: d.in}, ahead))
	for {
		end := d.whenLarge(ctx)
		document, err := reader.Read()
		if err == nil {
			err = d.convert(ctx, document)
		}
		end()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = d.between(ctx)
		}
		if err != nil {
			return err
		}
		d.in.begun = d.in.read
		d.in.allowed = d.in.read + d.Limits.YAMLBytes + ahead
	}
}

// lineEnded terminates the last line, which the API machinery's YAML reader could otherwise lose (see catalog.EndLine).
type lineEnded struct {
	in    *metered
	ended bool
}

// Read implements io.Reader.
func (l *lineEnded) Read(p []byte) (int, error) {
	if l.ended || len(p) == 0 {
		return 0, io.EOF
	}
	n, err := l.in.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	if l.ended = true; l.in.last == '\n' {
		return 0, io.EOF
	}
	p[0] = '\n'
	return 1, nil
}

// whenLarge makes the next document, if it is large, wait for the maximum memory of one document. The caller must call
// end after the document is processed, to release the memory.
func (d *documents) whenLarge(ctx context.Context) (end func()) {
	release := func() {}
	d.in.large = func() error {
		done, err := d.Decoding.Begin(ctx, d.Limits.Cost)
		if err == nil {
			release = done
		}
		return err
	}
	return func() { release() }
}

func (d *documents) convert(ctx context.Context, document []byte) error {
	if len(bytes.TrimSpace(document)) == 0 {
		return nil
	}
	if d.all.Add(int64(len(document))) > d.Limits.AllYAMLBytes {
		return tooMuch("the catalog has more than %d bytes of YAML; use JSON", d.Limits.AllYAMLBytes)
	}
	var object []byte
	err := d.decoding(ctx, catalog.YAMLCost(document), func() (err error) {
		if err = manifest.CheckAliases(document); err == nil {
			object, err = yaml.YAMLToJSON(document)
		}
		return err
	})
	if err != nil || bytes.Equal(object, []byte("null")) {
		return err
	}
	return d.decode(ctx, object, catalog.JSONCost(object))
}

func (d *documents) decode(ctx context.Context, document []byte, cost int64) error {
	return d.decoding(ctx, cost, func() error { return d.add(document) })
}

// decoding waits for memory and then calls do. For a large document, memory is already reserved.
func (d *documents) decoding(ctx context.Context, cost int64, do func() error) error {
	if cost > d.Limits.Cost {
		return fmt.Errorf("decoding a document would need about %d MiB of memory, but at most %d MiB are allowed: use JSON, and fewer values per document",
			cost>>20, d.Limits.Cost>>20)
	}
	if d.in.large != nil {
		end, err := d.Decoding.Begin(ctx, cost)
		if err != nil {
			return err
		}
		defer end()
	}
	return do()
}
