package fbc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/remit-olm/remit/pkg/catalog/versions"
)

// render builds a catalog from bundles. broken describes packages that cannot be used.
func render(bundles []*authored) (cfg *declcfg.DeclarativeConfig, broken []error) {
	byPackage := map[string][]*authored{}
	for _, b := range bundles {
		byPackage[b.pkg] = append(byPackage[b.pkg], b)
	}
	cfg = &declcfg.DeclarativeConfig{}
	for _, name := range slices.Sorted(maps.Keys(byPackage)) {
		versions := byPackage[name]
		if err := distinct(versions); err != nil {
			broken = append(broken, fmt.Errorf("package %q: %w", name, err))
			continue
		}
		slices.SortFunc(versions, newestFirst)
		cfg.Packages = append(cfg.Packages, declcfg.Package{
			Schema:         declcfg.SchemaPackage,
			Name:           name,
			DefaultChannel: defaultChannel(versions),
		})
		cfg.Channels = append(cfg.Channels, renderChannels(name, versions)...)
		for _, b := range versions {
			cfg.Bundles = append(cfg.Bundles, b.Bundle(name, b.content.Manifests))
		}
	}
	return cfg, broken
}

func distinct(versions []*authored) error {
	dirs := map[string]string{}
	for _, b := range versions {
		if other, ok := dirs[b.Name]; ok {
			return fmt.Errorf("directories %q and %q contain the same bundle %q", other, b.dir, b.Name)
		}
		dirs[b.Name] = b.dir
	}
	return nil
}

// newestFirst orders bundles by descending version. Bundles with invalid semantic versions come last.
func newestFirst(a, b *authored) int {
	va, errA := versions.Parse(a.Version)
	vb, errB := versions.Parse(b.Version)
	switch {
	case errA == nil && errB == nil:
		return cmp.Or(vb.Compare(va), cmp.Compare(b.Name, a.Name))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return cmp.Compare(b.Name, a.Name)
}

// defaultChannel returns the default channel of the newest bundle whose default channel exists, or else the first
// channel of the newest bundle. In a directory that contains only the newest versions, the author's default channel may
// have no bundle.
func defaultChannel(versions []*authored) string {
	existing := map[string]bool{}
	for _, b := range versions {
		for _, c := range b.channels {
			existing[c] = true
		}
	}
	for _, b := range versions {
		if existing[b.defaultChannel] {
			return b.defaultChannel
		}
	}
	return versions[0].channels[0]
}

func renderChannels(pkg string, versions []*authored) []declcfg.Channel {
	entries := map[string][]declcfg.ChannelEntry{}
	for _, b := range versions {
		for _, c := range b.channels {
			entries[c] = append(entries[c], b.Entry())
		}
	}
	out := make([]declcfg.Channel, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		out = append(out, declcfg.Channel{
			Schema:  declcfg.SchemaChannel,
			Name:    name,
			Package: pkg,
			Entries: connect(entries[name]),
		})
	}
	return out
}
