package catalog

import (
	"fmt"
	"maps"
	"slices"
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
	}
	return nil
}
