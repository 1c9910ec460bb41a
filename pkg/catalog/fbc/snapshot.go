package fbc

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog"
)

// snapshot puts the parts together. They are taken in name order, so that of several problems it
// is always the same one that is reported.
func (b *builder) snapshot() (*catalog.Snapshot, error) {
	if err := b.joined(); err != nil {
		return nil, err
	}
	if len(b.packages) == 0 {
		return nil, errors.New("there is no olm.package: the catalog is empty")
	}
	for _, assemble := range []func() error{b.joinBundles, b.joinChannels, b.joinDeprecations, b.validate} {
		if err := assemble(); err != nil {
			return nil, err
		}
	}
	return &catalog.Snapshot{
		Digest:   catalog.Digest(b.packages, b.contents.Digest),
		Packages: b.packages,
		Reader:   b.contents,
	}, nil
}

func (b *builder) joinBundles() error {
	for _, key := range slices.SortedFunc(maps.Keys(b.bundles), compareKeys) {
		pkg, ok := b.packages[key.pkg]
		if !ok {
			return fmt.Errorf("bundle %q: there is no package %q", key.name, key.pkg)
		}
		pkg.Bundles[key.name] = b.bundles[key]
	}
	return nil
}

func compareKeys(a, b bundleKey) int {
	return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
}

func (b *builder) joinChannels() error {
	slices.SortFunc(b.channels, func(x, y declcfg.Channel) int {
		return cmp.Or(cmp.Compare(x.Package, y.Package), cmp.Compare(x.Name, y.Name))
	})
	for i := range b.channels {
		in := &b.channels[i]
		pkg, ok := b.packages[in.Package]
		if !ok {
			return fmt.Errorf("channel %q: there is no package %q", in.Name, in.Package)
		}
		if _, ok := pkg.Channels[in.Name]; ok {
			return fmt.Errorf("package %q, channel %q is there twice", in.Package, in.Name)
		}
		out, err := convertChannel(in)
		if err != nil {
			return fmt.Errorf("package %q, channel %q: %w", in.Package, in.Name, err)
		}
		pkg.Channels[in.Name] = out
	}
	return nil
}

func convertChannel(in *declcfg.Channel) (*catalog.Channel, error) {
	out := &catalog.Channel{Name: in.Name, Entries: make(map[string]catalog.Entry, len(in.Entries))}
	for _, e := range in.Entries {
		if _, ok := out.Entries[e.Name]; ok {
			return nil, fmt.Errorf("entry %q is there twice", e.Name)
		}
		out.Entries[e.Name] = catalog.Entry{Name: e.Name, Replaces: e.Replaces, Skips: e.Skips, SkipRange: e.SkipRange}
	}
	return out, nil
}

func (b *builder) joinDeprecations() error {
	seen := map[string]bool{}
	for _, d := range b.deprecations {
		pkg, ok := b.packages[d.Package]
		if !ok {
			return fmt.Errorf("olm.deprecations: there is no package %q", d.Package)
		}
		if seen[d.Package] {
			return fmt.Errorf("olm.deprecations of package %q are there twice", d.Package)
		}
		seen[d.Package] = true
		for _, e := range d.Entries {
			if err := deprecate(pkg, e); err != nil {
				return fmt.Errorf("olm.deprecations of package %q: %w", d.Package, err)
			}
		}
	}
	return nil
}

func deprecate(pkg *catalog.Package, e declcfg.DeprecationEntry) error {
	name := e.Reference.Name
	switch e.Reference.Schema {
	case declcfg.SchemaPackage:
		pkg.Deprecation = e.Message
		return nil
	case declcfg.SchemaChannel:
		if c, ok := pkg.Channels[name]; ok {
			c.Deprecation = e.Message
			return nil
		}
	case declcfg.SchemaBundle:
		if b, ok := pkg.Bundles[name]; ok {
			b.Deprecation = e.Message
			return nil
		}
	}
	return fmt.Errorf("there is no %s %q", e.Reference.Schema, name)
}

func (b *builder) validate() error {
	for _, name := range slices.Sorted(maps.Keys(b.packages)) {
		if err := b.packages[name].Validate(); err != nil {
			return err
		}
	}
	return nil
}
