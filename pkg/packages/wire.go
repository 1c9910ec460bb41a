package packages

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Header is the first line of an encoded catalog.
type Header struct {
	Source Source `json:"source"`
	// Digest identifies the content of the catalog and the Source.
	Digest string `json:"digest"`
}

// footer is the last line of an encoded catalog.
type footer struct {
	Packages *int `json:"packages"`
}

// Encoder writes a catalog as JSON lines: the header, a record for each package, and the number of packages.
type Encoder struct {
	to io.Writer
	n  int
}

// NewEncoder writes the header.
func NewEncoder(to io.Writer, h Header) (*Encoder, error) {
	e := &Encoder{to: to}
	return e, e.line(h)
}

// Encode writes a record.
func (e *Encoder) Encode(r Record) error {
	e.n++
	return e.line(r)
}

// Close writes the number of packages, without which the catalog is incomplete.
func (e *Encoder) Close() error { return e.line(footer{&e.n}) }

func (e *Encoder) line(v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = e.to.Write(append(text, '\n'))
	}
	return err
}

// Decoder reads what an Encoder writes.
type Decoder struct {
	in   *bufio.Reader
	n    int
	line []byte
}

// errIncomplete means that the connection ended before the catalog was complete.
var errIncomplete = errors.New("the catalog is incomplete")

// NewDecoder reads the header.
func NewDecoder(from io.Reader) (*Decoder, Header, error) {
	d := &Decoder{in: bufio.NewReaderSize(from, 64<<10)}
	var h Header
	if err := d.read(); err != nil {
		return nil, h, err
	}
	if err := json.Unmarshal(d.line, &h); err != nil {
		return nil, h, fmt.Errorf("header: %w", err)
	}
	return d, h, nil
}

// Next reads the next record and its text, which is valid until the next call. It returns io.EOF after the last record.
func (d *Decoder) Next() (Record, []byte, error) {
	var r Record
	if err := d.read(); err != nil {
		return r, nil, err
	}
	var end footer
	if bytes.HasPrefix(d.line, []byte(`{"packages":`)) && json.Unmarshal(d.line, &end) == nil && end.Packages != nil {
		if *end.Packages != d.n {
			return r, nil, errIncomplete
		}
		return r, nil, io.EOF
	}
	if d.n++; d.n > catalog.MaxPackages {
		return r, nil, fmt.Errorf("the catalog has more than %d packages", catalog.MaxPackages)
	}
	if err := json.Unmarshal(d.line, &r); err != nil {
		return r, nil, fmt.Errorf("package %d: %w", d.n, err)
	}
	if err := catalog.CheckName(r.Manifest.Name); err != nil {
		return r, nil, fmt.Errorf("package %d: %w", d.n, err)
	}
	for name, at := range r.Uses {
		if at < 0 || at >= len(r.Icons) {
			return r, nil, fmt.Errorf("package %d: channel %q has no icon %d", d.n, name, at)
		}
	}
	return r, d.line, nil
}

// read reads a line without the line break.
func (d *Decoder) read() error {
	d.line = d.line[:0]
	for {
		part, err := d.in.ReadSlice('\n')
		if len(d.line)+len(part) > MaxRecordBytes {
			return fmt.Errorf("a line is longer than %d bytes", MaxRecordBytes)
		}
		d.line = append(d.line, part...)
		switch {
		case err == nil:
			d.line = bytes.TrimSuffix(d.line, []byte{'\n'})
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return errIncomplete
		default:
			return err
		}
	}
}
