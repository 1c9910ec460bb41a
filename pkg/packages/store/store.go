package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/packages"
)

// Limits for the stored catalogs.
const (
	// maxNamespaceDisk and maxNamespaceIndex bound the bytes on disk, and the estimated memory, of the catalogs of one
	// namespace, except the global catalog namespace.
	maxNamespaceDisk, maxNamespaceIndex = 128 << 20, 32 << 20
	// maxTenantDisk and maxTenantIndex bound the total for all such namespaces.
	maxTenantDisk, maxTenantIndex = 1536 << 20, 96 << 20
	// leastNamespaceDisk and leastNamespaceIndex are available to each namespace even if that total is reached, so that a few
	// namespaces cannot take everything. mostDisk and mostIndex bound the total including these.
	leastNamespaceDisk, leastNamespaceIndex = 8 << 20, 512 << 10
	mostDisk, mostIndex                     = 2 << 30, 128 << 20
	// maxGlobalDisk and maxGlobalIndex bound the catalogs of the global catalog namespace.
	maxGlobalDisk, maxGlobalIndex = 1 << 30, 256 << 20
	// entryOverhead is the estimated memory of an entry, labelOverhead is that of a label, and catalogOverhead is that of a catalog
	// with its names and texts.
	entryOverhead, labelOverhead, catalogOverhead = 300, 32, 4 << 10
)

// ErrFull means that there is no room for a catalog.
var ErrFull = errors.New("no room for the catalog")

// Options configures a Store.
type Options struct {
	// Directory is where files are created; if empty, the system's directory for temporary files.
	Directory string
	// GlobalNamespace is the global catalog namespace.
	GlobalNamespace string
	// Now returns the current time; nil means time.Now. Versions start at the current time, so that they increase across
	// restarts.
	Now func() time.Time
}

// Store contains the packages of all catalogs. It is safe for concurrent use.
type Store struct {
	Options

	mu       sync.RWMutex
	version  uint64
	catalogs map[types.NamespacedName]*Catalog
	history  history
	complete bool
}

// Catalog is the content of one catalog. It is immutable.
type Catalog struct {
	packages.Header
	// Version is the version at which the catalog was stored.
	Version uint64
	// entries are sorted by the name of the package.
	entries []*Entry
	use     use
}

// Key returns the namespace and name of the CatalogSource.
func (c *Catalog) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Source.Namespace, Name: c.Source.Name}
}

// Len returns the number of packages.
func (c *Catalog) Len() int { return len(c.entries) }

// Entry is a package of a catalog in the index. It is immutable.
type Entry struct {
	// Name is the name of the package.
	Name string
	// Source is the CatalogSource. Its labels are those that all packages of the catalog have.
	Source *packages.Source
	// Version is the version at which the package changed.
	Version uint64
	// Bytes is the length of the record.
	Bytes int64
	// Cost is the memory that a response with the package needs: the length of the record or, if more, the memory of the
	// decoded PackageManifest, in which the two bytes of {} can take hundreds.
	Cost int64

	// own are the labels of the package, without those that all packages of the catalog have.
	own    map[string]string
	offset int64
	// sum identifies the record and the labels.
	sum  [sha256.Size]byte
	file *os.File
}

// Catalog returns the name of the CatalogSource.
func (e *Entry) Catalog() types.NamespacedName {
	return types.NamespacedName{Namespace: e.Source.Namespace, Name: e.Source.Name}
}

// Labels returns the labels of the PackageManifest.
func (e *Entry) Labels() Labels { return Labels{own: e.own, shared: e.Source.Labels} }

// Record reads the record.
func (e *Entry) Record() (packages.Record, error) {
	var out packages.Record
	text := make([]byte, e.Bytes)
	if _, err := e.file.ReadAt(text, e.offset); err != nil {
		return out, fmt.Errorf("read package %q: %w", e.Name, err)
	}
	return out, json.Unmarshal(text, &out)
}

// New returns an empty Store.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{Options: o, catalogs: map[types.NamespacedName]*Catalog{}}
	s.version = uint64(o.Now().UnixMicro())
	s.history.begin(s.version)
	return s
}

// SetComplete records that all catalogs were delivered.
func (s *Store) SetComplete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = true
}

// IsComplete reports whether all catalogs have been delivered since the program started.
func (s *Store) IsComplete() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.complete
}

// Put reads a catalog and replaces the catalog of the same CatalogSource. If the catalog cannot be read completely, nothing
// changes.
func (s *Store) Put(key types.NamespacedName, from io.Reader) error {
	decoder, header, err := packages.NewDecoder(from)
	if err != nil {
		return err
	}
	if header.Source.Namespace != key.Namespace || header.Source.Name != key.Name {
		return fmt.Errorf("the header names a catalog other than %s", key)
	}
	file, err := s.file()
	if err != nil {
		return err
	}
	next := &Catalog{Header: header}
	next.Source.Labels = header.Source.Shared()
	next.use.index = catalogOverhead + sizeOf(next.Source.Labels)
	err = s.read(next, decoder, file)
	if err == nil {
		err = s.publish(next)
	}
	if err != nil {
		_ = file.Close()
	}
	return err
}

// file returns a new file that is deleted when it is no longer used.
func (s *Store) file() (*os.File, error) {
	file, err := os.CreateTemp(s.Directory, "packages-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

// read copies the records to the file.
func (s *Store) read(c *Catalog, from *packages.Decoder, file *os.File) error {
	before := s.others(c.Key())
	base, err := json.Marshal(c.Source.Labels)
	if err != nil {
		return err // not reached: encoding strings does not fail
	}
	labels := budget.Of(c.Source.Labels).Memory // the responses contain them
	for {
		record, text, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		e := &Entry{
			Name: record.Manifest.Name, Source: &c.Source, own: record.Manifest.Labels,
			offset: c.use.disk, Bytes: int64(len(text)), sum: sumOf(base, text), file: file,
		}
		c.entries = append(c.entries, e)
		e.Cost = cost(&record.Manifest, text) + labels
		c.use.disk += e.Bytes
		c.use.index += e.size()
		if err := s.fits(c, before); err != nil {
			return err
		}
		if _, err := file.WriteAt(text, e.offset); err != nil {
			return fmt.Errorf("write package %q: %w", e.Name, err)
		}
	}
	c.detach()
	slices.SortFunc(c.entries, func(a, b *Entry) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(c.entries); i++ {
		if c.entries[i].Name == c.entries[i-1].Name {
			return fmt.Errorf("duplicate package %q", c.entries[i].Name)
		}
	}
	return nil
}

// sumOf identifies a record and the labels that all packages of the catalog have.
func sumOf(labels, record []byte) (sum [sha256.Size]byte) {
	hash := sha256.New()
	_, _ = hash.Write(labels) // never fails
	_, _ = hash.Write(record)
	return [sha256.Size]byte(hash.Sum(sum[:0]))
}

// others returns the usage of all catalogs except the one with the given key, and what that one uses.
func (s *Store) others(key types.NamespacedName) usage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.countOthers(key)
}

// countOthers is others for callers that hold the lock.
func (s *Store) countOthers(key types.NamespacedName) usage {
	var out usage
	tenants := map[string]use{}
	for other, c := range s.catalogs {
		switch {
		case other == key:
			out.replaced = c.use
		case other.Namespace == key.Namespace:
			out.namespace.add(c.use)
		case other.Namespace != s.GlobalNamespace:
			sum := tenants[other.Namespace]
			sum.add(c.use)
			tenants[other.Namespace] = sum
		}
	}
	for _, u := range tenants {
		out.disk = append(out.disk, budget.Usage{Used: u.disk})
		out.index = append(out.index, budget.Usage{Used: u.index})
	}
	return out
}

// usage is what catalogs use.
type usage struct {
	// namespace is the usage of the other catalogs in a catalog's namespace, and replaced that of the catalog's previous version.
	namespace, replaced use
	// disk and index are what the other namespaces use, except the global catalog namespace.
	disk, index []budget.Usage
}

// fits returns an error if a catalog, together with the other catalogs, exceeds the limits.
func (s *Store) fits(c *Catalog, others usage) error {
	namespace := others.namespace
	namespace.add(c.use)
	if c.Source.Namespace == s.GlobalNamespace {
		return fit(namespace.within(use{maxGlobalDisk, maxGlobalIndex}), "the catalogs of the global catalog namespace exceed %d MiB of descriptions or %d MiB of names and labels", maxGlobalDisk>>20, maxGlobalIndex>>20)
	}
	if !namespace.within(use{maxNamespaceDisk, maxNamespaceIndex}) {
		return fit(false, "the catalogs of the namespace exceed %d MiB of descriptions or %d MiB of names and labels", maxNamespaceDisk>>20, maxNamespaceIndex>>20)
	}
	return fit(hasRoom(c.use, namespace, others),
		"the catalogs of all tenants leave little room, and those of the namespace exceed %d MiB of descriptions or %d KiB of names and labels", leastNamespaceDisk>>20, leastNamespaceIndex>>10)
}

// hasRoom reports whether all tenants together have room for a catalog that uses "new". namespace includes the catalog.
func hasRoom(new, namespace use, others usage) bool {
	disk := budget.Room{Total: maxTenantDisk, Least: leastNamespaceDisk, Most: mostDisk}
	index := budget.Room{Total: maxTenantIndex, Least: leastNamespaceIndex, Most: mostIndex}
	return disk.Admits(budget.Request{Used: namespace.disk, Grows: new.disk > others.replaced.disk, Others: others.disk}) &&
		index.Admits(budget.Request{Used: namespace.index, Grows: new.index > others.replaced.index, Others: others.index})
}

// fit returns ErrFull with an explanation unless there is room.
func fit(hasRoom bool, format string, limits ...any) error {
	if hasRoom {
		return nil
	}
	return fmt.Errorf("%w: "+format, append([]any{ErrFull}, limits...)...)
}

// use is the usage of catalogs: bytes on disk, and memory for the index.
type use struct{ disk, index int64 }

func (u *use) add(more use) {
	u.disk += more.disk
	u.index += more.index
}

func (u *use) within(limit use) bool { return u.disk <= limit.disk && u.index <= limit.index }

// size estimates the memory of an entry.
func (e *Entry) size() int64 {
	return entryOverhead + int64(len(e.Name)) + sizeOf(e.own)
}

// publish replaces the catalog of the same CatalogSource if there is still room, because others may have been stored in the meantime.
func (s *Store) publish(next *Catalog) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fits(next, s.countOthers(next.Key())); err != nil {
		return err
	}
	s.replace(next)
	return nil
}

// replace stores a catalog, and records the differences from the previous one. The caller must hold the lock.
func (s *Store) replace(next *Catalog) {
	old := s.catalogs[next.Key()]
	var before []*Entry
	if old != nil {
		before = old.entries
		if old.Source.UID != next.Source.UID { // another CatalogSource with the same name
			s.record(next.Key(), before, nil)
			before = nil
		}
	}
	s.record(next.Key(), before, next.entries)
	s.version++
	next.Version = s.version
	s.catalogs[next.Key()] = next
	s.history.wake(s.version)
}

// record gives the changed entries a new version, and adds the differences to the history.
func (s *Store) record(of types.NamespacedName, before, after []*Entry) {
	known := make(map[string]*Entry, len(before))
	for _, e := range before {
		known[e.Name] = e
	}
	for _, e := range after {
		old := known[e.Name]
		delete(known, e.Name)
		if old != nil && old.sum == e.sum {
			e.Version = old.Version
			continue
		}
		s.version++
		e.Version = s.version
		change := Change{Version: s.version, Catalog: of, Package: e.Name, IsNew: old == nil}
		if old != nil {
			change.Before = old.Labels()
			if maps.Equal(e.own, old.own) {
				e.own = old.own // the history keeps it anyway
			}
		}
		s.history.add(change)
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		s.version++
		s.history.add(Change{Version: s.version, Catalog: of, Package: name, Before: known[name].Labels(), Deleted: true})
	}
}

// Delete removes a catalog.
func (s *Store) Delete(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.catalogs[key]
	if old == nil {
		return
	}
	s.record(key, old.entries, nil)
	delete(s.catalogs, key)
	s.version++
	s.history.wake(s.version)
}

// Catalogs returns all catalogs, sorted by namespace and name, and the current version.
func (s *Store) Catalogs() ([]*Catalog, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.catalogs), func(a, b *Catalog) int {
		return cmp.Or(cmp.Compare(a.Source.Namespace, b.Source.Namespace), cmp.Compare(a.Source.Name, b.Source.Name))
	}), s.version
}

// View selects what is visible in a namespace: the catalogs of the namespace, and the global ones. The empty namespace
// selects all catalogs.
type View struct {
	Namespace string
	// Name selects one package; "" selects all.
	Name string
	// Match selects entries; nil selects all.
	Match func(*Entry) bool
}

// NamespaceOf returns the namespace that the packages of a catalog have in the view.
func (v View) NamespaceOf(catalog types.NamespacedName) string {
	return cmp.Or(v.Namespace, catalog.Namespace)
}

// Sees reports whether a view includes the packages of a catalog.
func (s *Store) Sees(v View, catalog types.NamespacedName) bool {
	return v.Namespace == "" || catalog.Namespace == v.Namespace || catalog.Namespace == s.GlobalNamespace
}

// List returns the entries that a view selects, in the order of Compare, and the current version.
func (s *Store) List(v View) ([]*Entry, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*Entry
	for key, c := range s.catalogs {
		if !s.Sees(v, key) {
			continue
		}
		for _, e := range c.named(v.Name) {
			if v.Match == nil || v.Match(e) {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b *Entry) int { return Compare(v.Namespace, a, b) })
	return out, s.version
}

// Names returns the names of at most n packages that a view selects, sorted, and only those after the given one. It references
// no entry, so that callers can keep the names without keeping replaced catalogs in memory and on disk.
func (s *Store) Names(v View, after string, n int) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for key, c := range s.catalogs {
		if s.Sees(v, key) {
			out = c.names(out, v, after, n)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.Clone(out[:min(n, len(out))])
}

// names appends the first n names after the given one.
func (c *Catalog) names(to []string, v View, after string, n int) []string {
	all := c.named(v.Name)
	at, found := c.search(all, after)
	if found {
		at++
	}
	for _, e := range all[at:] {
		if n == 0 {
			break
		}
		if v.Match == nil || v.Match(e) {
			to = append(to, e.Name)
			n--
		}
	}
	return to
}

// named returns the entry with a name, or all entries if the name is empty.
func (c *Catalog) named(name string) []*Entry {
	if name == "" {
		return c.entries
	}
	at, found := c.search(c.entries, name)
	if !found {
		return nil
	}
	return c.entries[at : at+1]
}

func (*Catalog) search(all []*Entry, name string) (at int, found bool) {
	return slices.BinarySearchFunc(all, name, func(e *Entry, name string) int { return cmp.Compare(e.Name, name) })
}

// Compare orders entries by namespace and name. Entries with the same name are in the order of resolution: by priority,
// then the catalogs of the namespace before the global ones, then by name.
func Compare(namespace string, a, b *Entry) int {
	return cmp.Or(cmp.Compare(cmp.Or(namespace, a.Source.Namespace), cmp.Or(namespace, b.Source.Namespace)), cmp.Compare(a.Name, b.Name),
		cmp.Compare(b.Source.Priority, a.Source.Priority), own(namespace, a, b), cmp.Compare(a.Source.Namespace, b.Source.Namespace), cmp.Compare(a.Source.Name, b.Source.Name))
}

func own(namespace string, a, b *Entry) int {
	is := func(e *Entry) int {
		if e.Source.Namespace == namespace {
			return 0
		}
		return 1
	}
	return cmp.Compare(is(a), is(b))
}

// get returns the entry of a package in one catalog.
func (s *Store) get(catalog types.NamespacedName, name string) *Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.catalogs[catalog]
	if c == nil {
		return nil
	}
	at, found := c.search(c.entries, name)
	if !found {
		return nil
	}
	return c.entries[at]
}

// Version returns the current version.
func (s *Store) Version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}
