package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Contents stores the manifests of a catalog in one file. Only their positions and digests are kept in memory. The file
// remains readable after its deletion, until it is closed.
type Contents struct {
	file *os.File
	// max bounds the size; zero means no limit. take reserves bytes before they are written.
	max  int64
	take func(int64) error
	// unuse marks the file as unused. If drop is true, it deletes the file unless it has other users.
	unuse func(drop bool)

	mu    sync.RWMutex
	size  int64
	spans map[bundleKey]span
}

type bundleKey struct{ pkg, name string }

// span is the position of a bundle's manifests in the file.
type span struct {
	offset, length int64
	digest         [32]byte
}

const digestPrefix = "sha256:"

func (s span) sum() string { return digestPrefix + hex.EncodeToString(s.digest[:]) }

// ErrTooLarge means that the manifests of a catalog are too large.
var ErrTooLarge = errors.New("the manifests in the catalog are larger than allowed")

// NewContents returns empty contents of at most limit bytes; zero means no limit. take reserves bytes before they are
// written; nil means that no reservation is needed.
func (s *Store) NewContents(limit int64, take func(bytes int64) error) (*Contents, error) {
	file, err := s.temp()
	if err != nil {
		return nil, err
	}
	if take == nil {
		take = func(int64) error { return nil }
	}
	c := contentsOf(file)
	c.max, c.take = limit, take
	return c, nil
}

// contentsOf returns contents that are stored in a file, without marking the file as used.
func contentsOf(file *os.File) *Contents {
	return &Contents{file: file, unuse: func(bool) {}, spans: map[bundleKey]span{}}
}

// Discard closes and deletes contents that are not needed.
func (c *Contents) Discard() {
	_ = c.Close()
	_ = os.Remove(c.file.Name())
}

// Unlink deletes the name of the file. The contents remain readable and need not be closed: the space on disk is freed when the
// garbage collector closes the file.
func (c *Contents) Unlink() error { return os.Remove(c.file.Name()) }

// Close closes the file, which Sweep may then delete. Later reads fail; readers must use the catalog's newer content.
func (c *Contents) Close() error {
	c.unuse(false)
	return c.file.Close()
}

// Drop closes the file of a catalog that is no longer needed, and deletes it unless it has other users.
func (c *Contents) Drop() {
	_ = c.file.Close()
	c.unuse(true)
}

// Size returns the size of the manifests, in bytes.
func (c *Contents) Size() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.size
}

// Put writes a bundle's manifests.
func (c *Contents) Put(pkg, bundle string, content *catalog.Content) error {
	data := encode(content)
	sum, err := parseDigest(content.Digest())
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.max > 0 && c.size+int64(len(data)) > c.max {
		c.mu.Unlock()
		return fmt.Errorf("%w (at most %d MiB in total); reference bundle images instead of including manifests", ErrTooLarge, c.max>>20)
	}
	at := span{offset: c.size, length: int64(len(data)), digest: sum}
	c.size += at.length
	c.spans[bundleKey{pkg, bundle}] = at
	c.mu.Unlock()
	if err = c.take(at.length); err == nil {
		_, err = c.file.WriteAt(data, at.offset)
	}
	if err != nil {
		return WriteError(err)
	}
	return nil
}

// ErrWrite means that writing to the disk failed; the content is not the cause.
var ErrWrite = errors.New("cannot be written to disk")

// WriteError wraps an error in ErrWrite and removes the path from it.
func WriteError(err error) error {
	var file *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &file):
		err = file.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fmt.Errorf("%w: %w", ErrWrite, err)
}

// Digest returns the digest of a bundle's manifests, or "" if there are none.
func (c *Contents) Digest(pkg, bundle string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if at, ok := c.spans[bundleKey{pkg, bundle}]; ok {
		return at.sum()
	}
	return ""
}

// Content implements catalog.ContentReader.
func (c *Contents) Content(_ context.Context, pkg, _, bundle string) (*catalog.Content, error) {
	c.mu.RLock()
	at, ok := c.spans[bundleKey{pkg, bundle}]
	c.mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("package %q, bundle %q: %w", pkg, bundle, catalog.ErrNoContent)
	}
	data := make([]byte, at.length)
	if _, err := c.file.ReadAt(data, at.offset); err != nil {
		return nil, fmt.Errorf("package %q, bundle %q: %w", pkg, bundle, err)
	}
	return decode(data, at.sum())
}

var errDamaged = errors.New("the catalog data on disk is damaged")

func parseDigest(text string) (out [32]byte, err error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, digestPrefix))
	if err != nil || len(raw) != len(out) {
		return out, fmt.Errorf("digest %q", text)
	}
	return [32]byte(raw), nil
}

// nameOfWarning marks a warning. It is not the name of a file.
const nameOfWarning = "\x00"

// encode writes the warnings, and the file name and the text of each manifest, each part preceded by its length.
func encode(content *catalog.Content) []byte {
	var out []byte
	put := func(name string, text []byte) {
		for _, part := range [][]byte{[]byte(name), text} {
			out = binary.AppendUvarint(out, uint64(len(part)))
			out = append(out, part...)
		}
	}
	for _, warning := range content.Warnings {
		put(nameOfWarning, []byte(warning))
	}
	for i, m := range content.Manifests {
		put(content.Name(i), m)
	}
	return out
}

// decode reads the output of encode and verifies the digest of the manifests.
func decode(data []byte, digest string) (*catalog.Content, error) {
	out := &catalog.Content{}
	named := false
	for in := bytes.NewReader(data); in.Len() > 0; {
		name, failed := part(in)
		m, err := part(in)
		if err != nil || failed != nil || len(out.Manifests) == catalog.MaxManifests {
			return nil, errDamaged
		}
		if string(name) == nameOfWarning && len(out.Warnings) < catalog.MaxContentWarnings {
			out.Warnings = append(out.Warnings, string(m))
			continue
		}
		named = named || len(name) > 0
		out.Manifests, out.Names = append(out.Manifests, m), append(out.Names, string(name))
	}
	if out.Digest() != digest {
		return nil, errDamaged
	}
	out.Manifests, out.Names = slices.Clip(out.Manifests), slices.Clip(out.Names)
	if !named {
		out.Names = nil
	}
	return out, nil
}

// part reads length-prefixed bytes.
func part(in *bytes.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil || n > uint64(in.Len()) { //nolint:gosec // a length is not negative
		return nil, errDamaged
	}
	out := make([]byte, n)
	_, err = io.ReadFull(in, out)
	return out, err
}
