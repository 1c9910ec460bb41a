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

// Contents are the manifests that a catalog carries, in one file. What is in memory of a bundle's is where they
// are and their digest. It stays readable when its file is deleted, until nobody uses it any more.
type Contents struct {
	file *os.File
	// max bounds the size; zero does not. take is asked for bytes before they are written.
	max  int64
	take func(int64) error
	// unuse takes the file from those in use; drop deletes it where nobody else uses it.
	unuse func(drop bool)

	mu    sync.RWMutex
	size  int64
	spans map[bundleKey]span
	err   error
}

type bundleKey struct{ pkg, name string }

// span is a bundle's place in the file.
type span struct {
	offset, length int64
	digest         [32]byte
}

const digestPrefix = "sha256:"

func (s span) sum() string { return digestPrefix + hex.EncodeToString(s.digest[:]) }

// ErrTooLarge says that a catalog carries more manifests than it may.
var ErrTooLarge = errors.New("its manifests are larger than allowed")

// NewContents makes an empty one, which takes at most so many bytes; zero is any number. take is asked for bytes before they are
// written; nil has any number.
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

// contentsOf is of a file that is not yet in use.
func contentsOf(file *os.File) *Contents {
	return &Contents{file: file, unuse: func(bool) {}, spans: map[bundleKey]span{}}
}

// Discard lets go of one that nothing came of.
func (c *Contents) Discard() {
	_ = c.Close()
	_ = os.Remove(c.file.Name())
}

// Close lets go of the file: it may be swept. Who reads after that has an error, and finds the catalog's newer content, if any.
func (c *Contents) Close() error {
	c.unuse(false)
	return c.file.Close()
}

// Drop lets go of a catalog that is not to be kept: where nobody else uses it, its files are deleted.
func (c *Contents) Drop() {
	_ = c.file.Close()
	c.unuse(true)
}

// Size is how many bytes the manifests take.
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
		return fmt.Errorf("%w: more than %d MiB altogether; have the bundles name images instead", ErrTooLarge, c.max>>20)
	}
	at := span{offset: c.size, length: int64(len(data)), digest: sum}
	c.size += at.length
	c.spans[bundleKey{pkg, bundle}] = at
	c.mu.Unlock()
	if err = c.take(at.length); err == nil {
		_, err = c.file.WriteAt(data, at.offset)
	}
	if err != nil {
		err = unwritten(err)
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}
	return err
}

// ErrWrite says that the disk, and not what is written there, is at fault.
var ErrWrite = errors.New("cannot be written to disk")

// unwritten leaves out where the directory is.
func unwritten(err error) error {
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

// Err is why a bundle's manifests could not be written, nil where all were.
func (c *Contents) Err() error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.err
}

// Digest is that of a bundle's manifests, "" where there are none.
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

var errDamaged = errors.New("what is on disk is damaged")

func parseDigest(text string) (out [32]byte, err error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, digestPrefix))
	if err != nil || len(raw) != len(out) {
		return out, fmt.Errorf("digest %q", text)
	}
	return [32]byte(raw), nil
}

// encode writes each manifest and the name of its file, with their lengths before them.
func encode(content *catalog.Content) []byte {
	var out []byte
	for i, m := range content.Manifests {
		for _, part := range []string{content.Name(i), string(m)} {
			out = binary.AppendUvarint(out, uint64(len(part)))
			out = append(out, part...)
		}
	}
	return out
}

// decode reads what encode wrote, and holds it against its digest.
func decode(data []byte, digest string) (*catalog.Content, error) {
	out := &catalog.Content{}
	named := false
	for in := bytes.NewReader(data); in.Len() > 0; {
		name, failed := part(in)
		m, err := part(in)
		if err != nil || failed != nil || len(out.Manifests) == catalog.MaxManifests {
			return nil, errDamaged
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

// part reads bytes with their length before them.
func part(in *bytes.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil || n > uint64(in.Len()) {
		return nil, errDamaged
	}
	out := make([]byte, n)
	_, err = io.ReadFull(in, out)
	return out, err
}
