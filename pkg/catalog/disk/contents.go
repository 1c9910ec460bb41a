package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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

// NewContents makes an empty one.
func (s *Store) NewContents() (*Contents, error) {
	file, err := s.temp()
	if err != nil {
		return nil, err
	}
	return &Contents{file: file, spans: map[bundleKey]span{}}, nil
}

// Discard lets go of one that nothing came of.
func (c *Contents) Discard() {
	_ = c.file.Close()
	_ = os.Remove(c.file.Name())
}

// Put writes a bundle's manifests.
func (c *Contents) Put(pkg, bundle string, content *catalog.Content) error {
	data := encode(content)
	sum, err := parseDigest(content.Digest())
	if err != nil {
		return err
	}
	c.mu.Lock()
	at := span{offset: c.size, length: int64(len(data)), digest: sum}
	c.size += at.length
	c.spans[bundleKey{pkg, bundle}] = at
	c.mu.Unlock()
	if _, err = c.file.WriteAt(data, at.offset); err != nil {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
	}
	return err
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

// encode writes each manifest with its length before it.
func encode(content *catalog.Content) []byte {
	var out []byte
	for _, m := range content.Manifests {
		out = binary.AppendUvarint(out, uint64(len(m)))
		out = append(out, m...)
	}
	return out
}

// decode reads what encode wrote, and holds it against its digest.
func decode(data []byte, digest string) (*catalog.Content, error) {
	out := &catalog.Content{}
	for in := bytes.NewReader(data); in.Len() > 0; {
		n, err := binary.ReadUvarint(in)
		if err != nil || n > uint64(in.Len()) || len(out.Manifests) == catalog.MaxManifests {
			return nil, errDamaged
		}
		m := make([]byte, n)
		if _, err := io.ReadFull(in, m); err != nil {
			return nil, errDamaged
		}
		out.Manifests = append(out.Manifests, m)
	}
	if out.Digest() != digest {
		return nil, errDamaged
	}
	out.Manifests = slices.Clip(out.Manifests)
	return out, nil
}
