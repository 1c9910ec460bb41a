package fbc

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// snapshot assembles the parts. A problem with a package excludes the package and becomes a warning; if no package is left, the
// problems become the error.
func (b *builder) snapshot() (*catalog.Snapshot, error) {
	if len(b.packages) == 0 && b.problems.empty() {
		return nil, errors.New("the catalog is empty: it contains no object with schema olm.package")
	}
	b.joinBundles()
	b.joinChannels()
	b.joinDeprecations()
	b.validate()
	if err := b.excess(); err != nil {
		return nil, err
	}
	unusable := slices.Sorted(maps.Keys(b.unusable))
	var lost []string
	for _, name := range unusable {
		if _, ok := b.packages[name]; ok {
			delete(b.packages, name)
			lost = append(lost, name)
		}
	}
	if len(b.packages) == 0 {
		return nil, errors.New(strings.Join(b.warnings(nil), "; "))
	}
	out := &catalog.Snapshot{
		Digest:   catalog.Digest(b.packages, b.contents.Digest),
		Packages: b.packages,
		Reader:   b.contents,
		Warnings: b.warnings(lost),
	}
	if !b.unread { // all unusable packages are known
		out.Excluded = slices.Clone(unusable[:min(len(unusable), catalog.MaxExcluded)])
		out.MoreExcluded = len(unusable) - len(out.Excluded)
	}
	return out, nil
}

func (b *builder) joinBundles() {
	for _, key := range slices.SortedFunc(maps.Keys(b.bundles), compareKeys) {
		pkg, ok := b.packages[key.pkg]
		if !ok && !b.unusable[clip(key.pkg)] {
			b.exclude(key.pkg, fmt.Errorf("bundle %q: package %q not found", key.name, clip(key.pkg)))
		}
		if !ok {
			continue
		}
		pkg.Bundles[key.name] = b.bundles[key]
	}
}

func compareKeys(a, b bundleKey) int {
	return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
}

func (b *builder) joinChannels() {
	slices.SortFunc(b.channels, func(x, y declcfg.Channel) int {
		return cmp.Or(cmp.Compare(x.Package, y.Package), cmp.Compare(x.Name, y.Name))
	})
	for i := range b.channels {
		if err := b.joinChannel(&b.channels[i]); err != nil {
			b.exclude(b.channels[i].Package, err)
		}
	}
}

func (b *builder) joinChannel(in *declcfg.Channel) error {
	pkg, ok := b.packages[in.Package]
	if !ok && b.unusable[clip(in.Package)] {
		return nil // the package is already excluded, with a reason
	}
	if !ok {
		return fmt.Errorf("channel %q: package %q not found", clip(in.Name), clip(in.Package))
	}
	if _, ok := pkg.Channels[in.Name]; ok {
		return fmt.Errorf("package %q: duplicate channel %q", in.Package, clip(in.Name))
	}
	out, err := convertChannel(in)
	if err != nil {
		return fmt.Errorf("package %q, channel %q: %w", in.Package, clip(in.Name), err)
	}
	pkg.Channels[in.Name] = out
	return nil
}

func convertChannel(in *declcfg.Channel) (*catalog.Channel, error) {
	out := &catalog.Channel{Name: in.Name, Entries: make(map[string]catalog.Entry, len(in.Entries))}
	for _, e := range in.Entries {
		if _, ok := out.Entries[e.Name]; ok {
			return nil, fmt.Errorf("duplicate entry %q", e.Name)
		}
		out.Entries[e.Name] = entryOf(e)
	}
	return out, nil
}

func entryOf(e declcfg.ChannelEntry) catalog.Entry {
	return catalog.Entry{Name: e.Name, Replaces: e.Replaces, Skips: e.Skips, SkipRange: e.SkipRange}
}

func (b *builder) joinDeprecations() {
	seen := map[string]bool{}
	for _, d := range b.deprecations {
		if err := b.joinDeprecation(d, seen[d.Package]); err != nil {
			b.exclude(d.Package, err)
		}
		seen[d.Package] = true
	}
}

func (b *builder) joinDeprecation(d declcfg.Deprecation, again bool) error {
	pkg, ok := b.packages[d.Package]
	if !ok {
		return fmt.Errorf("olm.deprecations: package %q not found", clip(d.Package))
	}
	if again {
		return fmt.Errorf("duplicate olm.deprecations of package %q", d.Package)
	}
	for _, e := range d.Entries {
		if err := deprecate(pkg, e); err != nil {
			return fmt.Errorf("olm.deprecations of package %q: %w", d.Package, err)
		}
	}
	return nil
}

// deprecate sets the message of a package, channel or bundle. It becomes part of conditions, so it must be one line (security model,
// rule 9).
func deprecate(pkg *catalog.Package, e declcfg.DeprecationEntry) error {
	name := e.Reference.Name
	e.Message = string(message.Line(e.Message))
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
	return fmt.Errorf("%s %q not found", message.Word(e.Reference.Schema), clip(name))
}

func (b *builder) validate() {
	for _, name := range slices.Sorted(maps.Keys(b.packages)) {
		if b.unusable[name] {
			continue
		}
		if err := b.packages[name].Validate(); err != nil {
			b.exclude(name, err)
		}
	}
}
