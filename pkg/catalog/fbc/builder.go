package fbc

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog"
)

// builder collects a catalog's parts, which come in any order and from several goroutines.
type builder struct {
	mu           sync.Mutex
	packages     map[string]*catalog.Package
	channels     []declcfg.Channel
	bundles      map[bundleKey]*catalog.Bundle
	contents     Contents
	deprecations []declcfg.Deprecation
	problems     []string
	bytes        int64
	entries      int
}

type bundleKey struct{ pkg, name string }

func newBuilder(contents Contents) *builder {
	return &builder{
		packages: map[string]*catalog.Package{},
		bundles:  map[bundleKey]*catalog.Bundle{},
		contents: contents,
	}
}

// add takes one object of a file. Schemas that Remit has no use for are ignored.
func (b *builder) add(meta *declcfg.Meta) error {
	if err := b.count(len(meta.Blob)); err != nil {
		return err
	}
	switch meta.Schema {
	case declcfg.SchemaPackage:
		return parse(meta, b.addPackage)
	case declcfg.SchemaChannel:
		return parse(meta, b.addChannel)
	case declcfg.SchemaBundle:
		return parse(meta, b.addBundle)
	case declcfg.SchemaDeprecation:
		return parse(meta, b.addDeprecation)
	case "":
		return errors.New("an object has no schema: this is not a file-based catalog")
	}
	return nil
}

// count bounds the objects after YAML aliases were expanded; the files are bounded where they are read.
func (b *builder) count(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes += int64(n); b.bytes > catalog.MaxCatalogBytes {
		return fmt.Errorf("the objects of the catalog are larger than %d bytes altogether", catalog.MaxCatalogBytes)
	}
	return nil
}

func parse[T any](meta *declcfg.Meta, add func(*T) error) error {
	var v T
	if err := json.Unmarshal(meta.Blob, &v); err != nil {
		return fmt.Errorf("%s %q of package %q: %w", meta.Schema, meta.Name, meta.Package, err)
	}
	return add(&v)
}

func (b *builder) addPackage(p *declcfg.Package) error {
	if err := catalog.CheckName(p.Name); err != nil {
		return fmt.Errorf("package: %w", err)
	}
	if p.DefaultChannel == "" {
		return fmt.Errorf("package %q has no default channel", p.Name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.packages[p.Name]; ok {
		return fmt.Errorf("package %q is there twice", p.Name)
	}
	if len(b.packages) == catalog.MaxPackages {
		return fmt.Errorf("more than %d packages", catalog.MaxPackages)
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
		return fmt.Errorf("more than %d channels", catalog.MaxChannels)
	}
	for i := range c.Entries {
		b.entries += 1 + len(c.Entries[i].Skips)
	}
	if b.entries > catalog.MaxEntries {
		return fmt.Errorf("more than %d channel entries", catalog.MaxEntries)
	}
	b.channels = append(b.channels, *c)
	return nil
}

// addBundle decodes the inline objects and lets go of their encoded form, so that a catalog's
// manifests are in memory once.
func (b *builder) addBundle(in *declcfg.Bundle) error {
	out, content, err := convertBundle(in)
	if err != nil {
		return fmt.Errorf("package %q, bundle %q: %w", in.Package, in.Name, err)
	}
	key := bundleKey{in.Package, in.Name}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.bundles[key]; ok {
		return fmt.Errorf("package %q, bundle %q is there twice", in.Package, in.Name)
	}
	if len(b.bundles) == catalog.MaxBundles {
		return fmt.Errorf("more than %d bundles", catalog.MaxBundles)
	}
	b.bundles[key] = out
	if content == nil {
		return nil
	}
	return b.contents.Put(in.Package, in.Name, content)
}

func (b *builder) addDeprecation(d *declcfg.Deprecation) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deprecations = append(b.deprecations, *d)
	return nil
}
