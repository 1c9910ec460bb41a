package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/lib/message"
)

// Validate returns the first problem with a package, and names the channel and entry. Problems are ordered by name, so
// that the message is stable across loads.
func (p *Package) Validate() error {
	if err := CheckName(p.Name); err != nil {
		return fmt.Errorf("package: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Bundles)) {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("package %q, bundle: %w", p.Name, err)
		}
		if err := p.Bundles[name].checkWords(); err != nil {
			return fmt.Errorf("package %q, bundle %q: %w", p.Name, name, err)
		}
	}
	for _, name := range p.ChannelNames() {
		if err := p.validateChannel(p.Channels[name]); err != nil {
			return fmt.Errorf("package %q, %w", p.Name, err)
		}
	}
	if _, ok := p.Channels[p.DefaultChannel]; p.DefaultChannel != "" && !ok {
		return fmt.Errorf("package %q: its default channel %q does not exist", p.Name, p.DefaultChannel)
	}
	return nil
}

func (p *Package) validateChannel(c *Channel) error {
	if err := CheckName(c.Name); err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	if len(c.Entries) == 0 {
		return fmt.Errorf("channel %q has no entries", c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Entries)) {
		if _, ok := p.Bundles[name]; !ok {
			return fmt.Errorf("channel %q: no bundle found for entry %q", c.Name, name)
		}
		if err := c.Entries[name].checkWords(); err != nil {
			return fmt.Errorf("channel %q, entry %q: %w", c.Name, name, err)
		}
	}
	return nil
}

// checkWords returns an error if a string that identifies the bundle's content contains white space or control characters.
func (b *Bundle) checkWords() error {
	if err := cmp.Or(message.CheckWord("image", b.Image), versions.Check(b.Version), message.CheckWord("version", b.Version)); err != nil {
		return err
	}
	for _, property := range b.Properties {
		if err := message.CheckWord("property type", property.Type); err != nil {
			return err
		}
	}
	return nil
}

// checkWords returns an error if a name that the entry replaces or skips contains white space or control characters. The range can
// contain spaces.
func (e Entry) checkWords() error {
	if !message.IsPlain(e.SkipRange) {
		return fmt.Errorf("skipRange %q contains control characters", message.Start(e.SkipRange))
	}
	if err := versions.CheckRange(e.SkipRange); err != nil {
		return fmt.Errorf("skipRange: %w", err)
	}
	if err := message.CheckWord("replaces", e.Replaces); err != nil {
		return err
	}
	for _, name := range e.Skips {
		if err := message.CheckWord("skips", name); err != nil {
			return err
		}
	}
	return nil
}
