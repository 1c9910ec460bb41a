package disk

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/remit-olm/remit/pkg/catalog"
)

const (
	suffixIndex    = ".index"
	suffixContents = ".contents"
	suffixLines    = ".lines"
	suffixDisplays = ".displays"
	// format is the version of the index. It changes whenever the format, or the result of loading the same image, changes.
	format = "remit-catalog-3"
	// maxHeader bounds the first line of an index, in bytes: the names, of which each byte can become six, and the warnings. The index of
	// an earlier version can be larger.
	maxHeader = 4 << 20
)

// header is the first line of the index, footer the last.
type header struct {
	Format       string   `json:"format"`
	Digest       string   `json:"digest"`
	Warnings     []string `json:"warnings,omitempty"`
	Excluded     []string `json:"excluded,omitempty"`
	MoreExcluded int      `json:"moreExcluded,omitempty"`
}

type footer struct {
	// Sum is a hash of all preceding lines.
	Sum string `json:"sum"`
}

// line is one package in the index.
type line struct {
	*catalog.Package
	// Contents contains the positions of manifests, by bundle.
	Contents map[string]place `json:",omitempty"`
}

type place struct {
	Offset int64  `json:"o"`
	Length int64  `json:"l"`
	Digest string `json:"d"`
}

// PutSnapshot stores a catalog whose manifests were loaded into contents. The contents remain the catalog's Reader.
func (s *Store) PutSnapshot(key string, snap *catalog.Snapshot, contents *Contents) error {
	return s.put(func(file *os.File) error { return writeIndex(file, snap, contents) },
		func(file *os.File) error { return s.placeSnapshot(key, file, contents) })
}

// placeSnapshot moves both files into place. Readers see either both or neither: the index, which they read first, is moved
// last. The contents stay open.
func (s *Store) placeSnapshot(key string, index *os.File, contents *Contents) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.path(dirCatalogs, key+suffixContents)
	if err := os.Rename(contents.file.Name(), to); err != nil {
		return err
	}
	if err := replace(index, s.path(dirCatalogs, key+suffixIndex)); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	s.use(key, contents)
	return nil
}

func writeIndex(to io.Writer, snap *catalog.Snapshot, contents *Contents) error {
	sum := sha256.New()
	out := bufio.NewWriterSize(to, 1<<16)
	lines := json.NewEncoder(io.MultiWriter(out, sum))
	lines.SetEscapeHTML(false)
	head := header{Format: format, Digest: snap.Digest, Warnings: snap.Warnings, Excluded: snap.Excluded, MoreExcluded: snap.MoreExcluded}
	if err := lines.Encode(head); err != nil {
		return err
	}
	for _, name := range snap.PackageNames() {
		l := line{Package: snap.Packages[name], Contents: map[string]place{}}
		for bundle := range l.Bundles {
			if at, ok := contents.spans[bundleKey{name, bundle}]; ok {
				l.Contents[bundle] = place{at.offset, at.length, at.sum()}
			}
		}
		if err := lines.Encode(l); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(out).Encode(footer{hex.EncodeToString(sum.Sum(nil))}); err != nil {
		return err
	}
	return out.Flush()
}

// HasSnapshot reports whether a catalog may be stored. Snapshot tells whether it can be used.
func (s *Store) HasSnapshot(key string) bool {
	_, err := os.Stat(s.path(dirCatalogs, key+suffixIndex))
	return err == nil
}

// Snapshot reads a stored catalog. The error is fs.ErrNotExist if the catalog is missing or damaged, or was written by
// a different version of the program. take reserves memory, as catalog.Kept.Take does; nil means that no reservation is needed.
func (s *Store) Snapshot(key string, take func(kept int64) error) (*catalog.Snapshot, error) {
	index, contents, err := s.openSnapshot(key)
	if err != nil {
		return nil, err
	}
	defer index.Close()
	snap, err := readIndex(index, contents, take)
	if err == nil {
		err = contents.checkSize()
	}
	if err != nil {
		_ = contents.Close()
		if errors.Is(err, errDamaged) {
			return nil, errors.Join(s.dropSnapshot(key), fs.ErrNotExist)
		}
		return nil, err
	}
	used(index.Name())
	used(contents.file.Name())
	return snap, nil
}

// openSnapshot marks the files as used before they are read, so that Sweep does not delete them.
func (s *Store) openSnapshot(key string) (index *os.File, contents *Contents, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	index, err = os.Open(s.path(dirCatalogs, key+suffixIndex))
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Open(s.path(dirCatalogs, key+suffixContents))
	if err != nil {
		_ = index.Close()
		return nil, nil, err
	}
	contents = contentsOf(file)
	s.use(key, contents)
	return index, contents, nil
}

// checkSize verifies that the file is at least as long as the index requires. Digests are verified when bundles are
// read.
func (c *Contents) checkSize() error {
	info, err := c.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < c.size {
		return fmt.Errorf("%w: the contents are truncated", errDamaged)
	}
	return nil
}

func (s *Store) dropSnapshot(key string) error {
	var more []error
	for _, suffix := range []string{suffixLines, suffixDisplays} { // a catalog has at most one of these files
		if err := os.Remove(s.path(dirCatalogs, key+suffix)); !errors.Is(err, fs.ErrNotExist) {
			more = append(more, err)
		}
	}
	return errors.Join(append(more, os.Remove(s.path(dirCatalogs, key+suffixIndex)), os.Remove(s.path(dirCatalogs, key+suffixContents)))...)
}

// readIndex reads the index line by line, so that only one package is in memory as text, and reserves memory for each.
func readIndex(from io.Reader, contents *Contents, take func(kept int64) error) (*catalog.Snapshot, error) {
	in := &lines{in: bufio.NewReaderSize(from, 1<<16), sum: sha256.New()}
	head, err := in.header()
	if err != nil {
		return nil, err
	}
	snap := &catalog.Snapshot{
		Digest: head.Digest, Packages: map[string]*catalog.Package{}, Reader: contents, Warnings: head.Warnings, Excluded: head.Excluded, MoreExcluded: head.MoreExcluded,
	}
	kept := catalog.Kept{Max: math.MaxInt64, Take: take}
	words := map[string]string{}
	for {
		before := hex.EncodeToString(in.sum.Sum(nil))
		text, err := in.next()
		if err != nil {
			return nil, err
		}
		if bytes.HasPrefix(text, []byte(`{"sum":`)) {
			var foot footer
			if json.Unmarshal(text, &foot) != nil || foot.Sum != before {
				return nil, errDamaged
			}
			return snap, nil
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil || l.Package == nil {
			return nil, errDamaged
		}
		if err := contents.place(&l); err != nil {
			return nil, err
		}
		share(l.Package, words)
		if err := kept.Add(l.Size()); err != nil {
			return nil, err
		}
		snap.Packages[l.Name] = l.Package
	}
}

func (c *Contents) place(l *line) error {
	for bundle, at := range l.Contents {
		sum, err := parseDigest(at.Digest)
		if err != nil || at.Length < 0 || at.Length > 2*catalog.MaxContentBytes {
			return errDamaged
		}
		c.spans[bundleKey{l.Name, bundle}] = span{at.Offset, at.Length, sum}
		c.size = max(c.size, at.Offset+at.Length)
	}
	return nil
}

// share deduplicates strings that a catalog repeats for each bundle.
func share(p *catalog.Package, words map[string]string) {
	one := func(text string) string {
		if known, ok := words[text]; ok {
			return known
		}
		words[text] = text
		return text
	}
	for _, b := range p.Bundles {
		b.Package = p.Name
		for i := range b.Properties {
			b.Properties[i].Type = one(b.Properties[i].Type)
		}
	}
}

type lines struct {
	in  *bufio.Reader
	sum hash.Hash
}

// header reads the first line.
func (l *lines) header() (head header, err error) {
	var text []byte
	for {
		part, err := l.in.ReadSlice('\n')
		if text = append(text, part...); len(text) > maxHeader {
			return head, fmt.Errorf("%w: its first line is too long", errDamaged)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return head, fmt.Errorf("%w: the file is truncated", errDamaged)
		}
	}
	l.sum.Write(text)
	if json.Unmarshal(text, &head) != nil || head.Format != format {
		return head, errDamaged
	}
	return head, nil
}

func (l *lines) next() ([]byte, error) {
	text, err := l.in.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: the file is truncated", errDamaged)
	}
	l.sum.Write(text)
	return text, err
}
