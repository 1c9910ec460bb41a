package fbc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog"
)

// builder collects the parts of a catalog, which arrive in any order and from several goroutines.
type builder struct {
	mu           sync.Mutex
	packages     map[string]*catalog.Package
	channels     []declcfg.Channel
	bundles      map[bundleKey]*catalog.Bundle
	contents     Contents
	deprecations []declcfg.Deprecation
	// problems describes unusable parts; unusable contains the packages that are excluded because of them.
	problems problems
	unusable map[string]bool
	// anyDefault is Loader.AnyDefault.
	anyDefault bool
	// unread is true if a file could not be read completely, so it is unknown which packages are affected.
	unread  bool
	bytes   int64
	entries int
	// kept estimates the retained memory. over is its error for the names of unusable packages, if any (see excess).
	kept catalog.Kept
	over error
	// files contains the content of bundles that were read from files, with file names and warnings.
	files map[bundleKey]*catalog.Content
	// yamlBytes counts the YAML that was read.
	yamlBytes atomic.Int64
	// objects receives every object; it may be nil.
	objects func(schema, pkg, name string, document []byte) error
}

type bundleKey struct{ pkg, name string }

func newBuilder(contents Contents) *builder {
	return &builder{
		packages: map[string]*catalog.Package{},
		bundles:  map[bundleKey]*catalog.Bundle{},
		contents: contents,
		unusable: map[string]bool{},
		files:    map[bundleKey]*catalog.Content{},
		kept:     catalog.Kept{Max: catalog.GlobalDecoding().Kept},
	}
}

// addDocument adds one object of a file and returns the name of its package. It ignores schemas that Remit does not
// use.
func (b *builder) addDocument(document []byte) (pkg string, err error) {
	if err := b.count(len(document)); err != nil {
		return "", err
	}
	var head struct{ Schema, Package, Name string }
	if err := json.Unmarshal(document, &head); err != nil {
		return "", fmt.Errorf("not a file-based catalog: %w", err)
	}
	written := head
	switch head.Schema {
	case declcfg.SchemaPackage:
		head.Package = head.Name
		err = parse(document, b.addPackage)
	case declcfg.SchemaChannel:
		err = parse(document, b.addChannel)
	case declcfg.SchemaBundle:
		err = parse(document, b.addBundle)
	case declcfg.SchemaDeprecation:
		err = parse(document, b.addDeprecation)
	case "":
		return "", errors.New("not a file-based catalog: an object has no schema")
	default:
		return "", b.addObject(written.Schema, written.Package, written.Name, document)
	}
	if errors.As(err, new(unreadable)) {
		err = fmt.Errorf("%s %q of package %q: %w", head.Schema, clip(head.Name), clip(head.Package), err)
	}
	if err == nil {
		err = b.addObject(written.Schema, written.Package, written.Name, document)
	}
	return clip(head.Package), err
}

// addObject passes an object on to Loader.Objects.
func (b *builder) addObject(schema, pkg, name string, document []byte) error {
	if b.objects == nil {
		return nil
	}
	b.mu.Lock()
	err := b.kept.Add(catalog.EntryOverhead + int64(len(schema)+len(pkg)+len(name)))
	b.mu.Unlock()
	if err == nil {
		err = b.objects(schema, pkg, name, document)
	}
	if err != nil {
		return wholeError{err}
	}
	return nil
}

// unreadable is a decoding error whose text does not name the object; addDocument adds the name.
type unreadable struct{ error }

// clip shortens a name. A part of a long name would otherwise keep the whole in memory.
func clip(s string) string {
	if len(s) <= catalog.MaxNameBytes {
		return s
	}
	return strings.Clone(s[:catalog.MaxNameBytes])
}

// count limits the total size of the objects after YAML aliases are expanded. The size of the files is limited when
// they are read.
func (b *builder) count(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes += int64(n); b.bytes > catalog.MaxCatalogBytes {
		return tooMuch("the objects of the catalog are larger than %d bytes in total", catalog.MaxCatalogBytes)
	}
	return nil
}

// full returns the error of a failed memory reservation, or nil. The catalog's content is not the cause of such an
// error.
func (b *builder) full() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.Full()
}

func parse[T any](document []byte, add func(*T) error) error {
	var v T
	if err := json.Unmarshal(document, &v); err != nil {
		return unreadable{err}
	}
	return add(&v)
}

func (b *builder) addPackage(p *declcfg.Package) error {
	if err := catalog.CheckName(p.Name); err != nil {
		return fmt.Errorf("package: %w", err)
	}
	if p.DefaultChannel == "" && !b.anyDefault {
		return fmt.Errorf("package %q has no default channel", p.Name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.packages[p.Name]; ok {
		b.exclude(p.Name, fmt.Errorf("duplicate package %q", p.Name))
		return b.excess()
	}
	if len(b.packages) == catalog.MaxPackages {
		return tooMuch("the catalog has more than %d packages", catalog.MaxPackages)
	}
	if err := b.kept.Add(catalog.PackageOverhead + int64(len(p.Name)+len(p.DefaultChannel))); err != nil {
		return wholeError{err}
	}
	b.packages[p.Name] = &catalog.Package{
		Name:           p.Name,
		DefaultChannel: p.DefaultChannel,
		Channels:       map[string]*catalog.Channel{},
		Bundles:        map[string]*catalog.Bundle{},
	}
	return nil
}

func (b *builder) addChannel(c *declcfg.Channel) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.channels) == catalog.MaxChannels {
		return tooMuch("the catalog has more than %d channels", catalog.MaxChannels)
	}
	for i := range c.Entries {
		b.entries += 1 + len(c.Entries[i].Skips)
	}
	if b.entries > catalog.MaxEntries {
		return tooMuch("the catalog has more than %d channel entries", catalog.MaxEntries)
	}
	if err := b.kept.Add(sizeOfChannel(c)); err != nil {
		return wholeError{err}
	}
	c.Properties = nil
	b.channels = append(b.channels, *c)
	return nil
}

// addBundle decodes the inline objects and releases their encoded form, so that manifests are in memory only once.
func (b *builder) addBundle(in *declcfg.Bundle) error {
	out, content, err := convertBundle(in)
	if err != nil {
		return fmt.Errorf("package %q, bundle %q: %w", in.Package, in.Name, err)
	}
	key := bundleKey{in.Package, in.Name}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.bundles[key]; ok {
		b.exclude(in.Package, fmt.Errorf("package %q: duplicate bundle %q", in.Package, in.Name))
		return b.excess()
	}
	if len(b.bundles) == catalog.MaxBundles {
		return tooMuch("the catalog has more than %d bundles", catalog.MaxBundles)
	}
	if err := b.kept.Add(out.Size() + int64(len(in.Package))); err != nil {
		return wholeError{err}
	}
	b.bundles[key] = out
	if content == nil {
		return nil
	}
	if read := b.files[key]; read != nil {
		content.Names, content.Warnings = read.Names, read.Warnings
	}
	if err := b.contents.Put(in.Package, in.Name, content); err != nil {
		return wholeError{err}
	}
	return nil
}

func (b *builder) addDeprecation(d *declcfg.Deprecation) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := catalog.EntryOverhead + len(d.Package)
	for _, e := range d.Entries {
		size += catalog.EntryOverhead + len(e.Message) + len(e.Reference.Name) + len(e.Reference.Schema)
	}
	if err := b.kept.Add(int64(size)); err != nil {
		return wholeError{err}
	}
	b.deprecations = append(b.deprecations, *d)
	return nil
}

func sizeOfChannel(c *declcfg.Channel) int64 {
	size := int64(catalog.ChannelOverhead + len(c.Name) + len(c.Package))
	for _, e := range c.Entries {
		size += entryOf(e).Size()
	}
	return size
}
