package disk

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/remit-olm/remit/pkg/catalog"
)

// maxLines bounds the number of objects in one catalog: each uses about 200 bytes of memory.
const maxLines = catalog.MaxPackages + catalog.MaxChannels + 2*catalog.MaxBundles

// Lines contains the objects of a catalog as JSON lines, sorted by package, schema and name. It is immutable, and safe
// for concurrent use. The file remains readable after its deletion, while the Lines are in use.
type Lines struct {
	file *os.File
	sum  string
	all  []Line
}

// Line is one object of a catalog.
type Line struct {
	Schema, Package, Name string
	offset, length        int64
}

// Length returns the length of the line, including its line break.
func (l Line) Length() int64 { return l.length }

// Digest returns a hash of all lines, as hexadecimal digits.
func (l *Lines) Digest() string { return l.sum }

// All returns all lines. The caller must not change the slice.
func (l *Lines) All() []Line { return l.all }

// Open returns a reader for one line.
func (l *Lines) Open(line Line) io.Reader {
	return io.NewSectionReader(l.file, line.offset, line.length)
}

// LinesWriter collects the objects of a catalog while it is loaded. It is safe for concurrent use.
type LinesWriter struct {
	file *os.File
	take func(int64) error

	mu   sync.Mutex
	size int64
	all  []Line
}

// NewLines returns an empty LinesWriter, which the caller must discard. take reserves bytes before they are written; nil
// means that no reservation is needed.
func (s *Store) NewLines(take func(bytes int64) error) (*LinesWriter, error) {
	file, err := s.temp()
	if err != nil {
		return nil, err
	}
	if take == nil {
		take = func(int64) error { return nil }
	}
	return &LinesWriter{file: file, take: take}, nil
}

// Discard deletes the temporary file.
func (w *LinesWriter) Discard() {
	_ = w.file.Close()
	_ = os.Remove(w.file.Name())
}

// Put adds an object. It has the signature of Loader.Objects in package fbc.
func (w *LinesWriter) Put(schema, pkg, name string, document []byte) error {
	for _, word := range []string{schema, pkg, name} {
		if len(word) > catalog.MaxNameBytes {
			return fmt.Errorf("the schema, package or name of an object has %d bytes; at most %d are allowed", len(word), catalog.MaxNameBytes)
		}
	}
	var text bytes.Buffer
	if err := json.Compact(&text, document); err != nil {
		return err
	}
	text.WriteByte('\n')
	line := Line{Schema: strings.Clone(schema), Package: strings.Clone(pkg), Name: strings.Clone(name), length: int64(text.Len())}
	w.mu.Lock()
	if len(w.all) == maxLines {
		w.mu.Unlock()
		return fmt.Errorf("the catalog has more than %d objects", maxLines)
	}
	line.offset = w.size
	w.size += line.length
	w.all = append(w.all, line)
	w.mu.Unlock()
	err := w.take(line.length)
	if err == nil {
		_, err = w.file.WriteAt(text.Bytes(), line.offset)
	}
	if err != nil {
		return WriteError(err)
	}
	return nil
}

// PutLines stores the lines for which keep returns true, with the catalog that PutSnapshot has stored.
func (s *Store) PutLines(key string, from *LinesWriter, keep func(Line) bool) (*Lines, error) {
	return s.putLines(key+suffixLines, from, keep)
}

// PutDisplays is like PutLines, but for display-only lines.
func (s *Store) PutDisplays(key string, from *LinesWriter, keep func(Line) bool) (*Lines, error) {
	return s.putLines(key+suffixDisplays, from, keep)
}

func (s *Store) putLines(name string, from *LinesWriter, keep func(Line) bool) (*Lines, error) {
	var out *Lines
	err := s.put(func(file *os.File) (err error) {
		out, err = from.writeTo(file, keep)
		return err
	}, func(file *os.File) (err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		path := s.path(dirCatalogs, name)
		if err := replace(file, path); err != nil {
			return err
		}
		out.file, err = os.Open(path) // while mu is held, because another writer of the catalog may replace the file
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// KeepLines returns lines in a file that is deleted when they are no longer in use.
func (s *Store) KeepLines(from *LinesWriter, keep func(Line) bool) (*Lines, error) {
	file, err := s.temp()
	if err != nil {
		return nil, err
	}
	out, err := from.writeTo(file, keep)
	if err == nil {
		err = os.Remove(file.Name())
	}
	if err != nil {
		_ = file.Close()
		return nil, WriteError(err)
	}
	out.file = file
	return out, nil
}

// writeTo writes the lines in order, followed by a footer with their hash.
func (w *LinesWriter) writeTo(file io.Writer, keep func(Line) bool) (*Lines, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(w.all), func(l Line) bool { return !keep(l) })
	slices.SortStableFunc(all, Line.compare)
	sum := sha256.New()
	buffered := bufio.NewWriterSize(file, 1<<16)
	to := io.MultiWriter(buffered, sum)
	at := int64(0)
	for i := range all {
		if _, err := io.Copy(to, io.NewSectionReader(w.file, all[i].offset, all[i].length)); err != nil {
			return nil, err
		}
		all[i].offset = at
		at += all[i].length
	}
	out := &Lines{sum: hexSum(sum), all: slices.Clip(all)}
	if err := json.NewEncoder(buffered).Encode(footer{out.sum}); err != nil {
		return nil, err
	}
	return out, buffered.Flush()
}

const schemaPackage = "olm.package"

// compare orders lines by package, schema and name.
func (l Line) compare(other Line) int {
	return cmp.Or(cmp.Compare(l.owner(), other.owner()), cmp.Compare(l.rank(), other.rank()), cmp.Compare(l.Schema, other.Schema), cmp.Compare(l.Name, other.Name))
}

// Find returns the line of an object.
func (l *Lines) Find(schema, pkg, name string) (Line, bool) {
	at, found := slices.BinarySearchFunc(l.all, Line{Schema: schema, Package: pkg, Name: name}, Line.compare)
	if !found {
		return Line{}, false
	}
	return l.all[at], true
}

// Size returns the size of all lines, in bytes.
func (l *Lines) Size() (n int64) {
	for _, line := range l.all {
		n += line.length
	}
	return n
}

// owner returns the package to which the object belongs. An olm.package belongs to the package that it names.
func (l Line) owner() string {
	if l.Schema == schemaPackage {
		return l.Name
	}
	return l.Package
}

// rank orders a package before its other objects.
func (l Line) rank() int {
	if l.Schema == schemaPackage {
		return 0
	}
	return 1
}

// IsOf reports whether the object belongs to one of the packages, or has a schema that Remit does not use.
func (l Line) IsOf(packages map[string]*catalog.Package) bool {
	if !slices.Contains([]string{schemaPackage, "olm.channel", "olm.bundle", "olm.deprecations"}, l.Schema) {
		return true
	}
	_, ok := packages[l.owner()]
	return ok
}

// Lines reads the stored lines of a catalog whose Snapshot is in use. The error is fs.ErrNotExist if they are missing or
// damaged.
func (s *Store) Lines(key string) (*Lines, error) { return s.readLines(key + suffixLines) }

// Displays is like Lines, but for lines that PutDisplays has stored.
func (s *Store) Displays(key string) (*Lines, error) { return s.readLines(key + suffixDisplays) }

func (s *Store) readLines(name string) (*Lines, error) {
	path := s.path(dirCatalogs, name)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	out, err := readLines(file)
	if err != nil {
		_ = file.Close()
		if errors.Is(err, errDamaged) {
			return nil, errors.Join(os.Remove(path), os.ErrNotExist)
		}
		return nil, err
	}
	used(path)
	return out, nil
}

// readLines reads a file line by line, so that only one object is in memory.
func readLines(file *os.File) (*Lines, error) {
	in := &lines{in: bufio.NewReaderSize(file, 1<<16), sum: sha256.New()}
	out := &Lines{file: file}
	words := map[string]string{}
	share := func(word string) string {
		if _, ok := words[word]; !ok {
			words[word] = word
		}
		return words[word]
	}
	at := int64(0)
	for {
		before := hexSum(in.sum)
		text, err := in.next()
		if err != nil {
			return nil, err
		}
		var line Line
		if json.Unmarshal(text, &line) != nil {
			return nil, errDamaged
		}
		if line.Schema == "" { // only the footer has no schema; the other fields of objects are arbitrary
			var foot footer
			if json.Unmarshal(text, &foot) != nil || foot.Sum != before {
				return nil, errDamaged
			}
			out.sum = before
			return out, nil
		}
		if len(out.all) == maxLines {
			return nil, errDamaged
		}
		line.Schema, line.Package = share(line.Schema), share(line.Package)
		line.offset, line.length = at, int64(len(text))
		at += line.length
		out.all = append(out.all, line)
	}
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }
