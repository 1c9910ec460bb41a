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

// smallDocument is the size of documents that are read without waiting for memory; larger ones are read one at a time.
const smallDocument = 1 << 20

// chunk is how much is read of a file of JSON at once.
const chunk = 1 << 16

// documents reads a file's, one after the other, each within the limits: of a file there is one document in memory.
type documents struct {
	Loader
	// all counts the YAML of the whole catalog.
	all *atomic.Int64
	add func(document []byte) error
	// in is what is read from.
	in *metered
}

// metered lets no document be longer than it may: allowed is how many bytes may have been read.
type metered struct {
	io.Reader
	read, begun, allowed int64
	// large is called once for a document that is not small.
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

// read takes JSON documents for as long as there are any, and YAML from the first one on that is not.
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

// firstByte is the first that is no space, which stays to be read.
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

// json returns what is left where that is not JSON.
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
			values.letGo()
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

// values are those of a file of JSON, one after the other.
type values struct {
	in      *metered
	decoder *json.Decoder
	// begun is where in the file the decoder began. It reads ahead first, and then from in.
	begun int64
	ahead *bytes.Reader
}

func newValues(in *metered) *values {
	return &values{in: in, decoder: json.NewDecoder(in), ahead: bytes.NewReader(nil)}
}

func (v *values) offset() int64 { return v.begun + v.decoder.InputOffset() }

// letGo leaves nothing in memory of what was decoded: a decoder keeps as much as its largest value took.
func (v *values) letGo() {
	v.begun = v.offset()
	next, _ := io.ReadAll(io.MultiReader(v.decoder.Buffered(), v.ahead)) // reads memory
	v.ahead = bytes.NewReader(next)
	v.decoder = json.NewDecoder(io.MultiReader(v.ahead, v.in))
}

// rest is what was not decoded, and counts anew.
func (v *values) rest() io.Reader {
	return io.MultiReader(v.decoder.Buffered(), v.ahead, v.in.Reader)
}

// yaml reads documents between lines of "---".
func (d *documents) yaml(ctx context.Context, file io.Reader) error {
	const ahead = 1 << 12 // what the reader may have read of the next document
	d.in = &metered{Reader: file, allowed: d.Limits.YAMLBytes + ahead, tooLong: func() error {
		return fmt.Errorf("a document of YAML is larger than %d bytes; use JSON", d.Limits.YAMLBytes)
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

// lineEnded gives the last line an end, without which the API machinery's reader of YAML may lose it (see catalog.EndLine).
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

// whenLarge has memory for the next document waited for, if it is large, as much as one may take; end gives it back.
func (d *documents) whenLarge(ctx context.Context) (end func()) {
	held := func() {}
	d.in.large = func() error {
		done, err := d.Decoding.Begin(ctx, d.Limits.Cost)
		if err == nil {
			held = done
		}
		return err
	}
	return func() { held() }
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

// between is called while no memory is held: others may need it before it is our turn again.
func (d *documents) between(ctx context.Context) error {
	if d.Between == nil {
		return ctx.Err()
	}
	return d.Between(ctx)
}

// decoding calls do once there is memory. A large document has it already.
func (d *documents) decoding(ctx context.Context, cost int64, do func() error) error {
	if cost > d.Limits.Cost {
		return fmt.Errorf("a document would take about %d MiB of memory to decode, more than %d: use JSON, and fewer values in one document",
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
