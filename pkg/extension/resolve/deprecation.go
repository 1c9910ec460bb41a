package resolve

import (
	"slices"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Deprecations contains a catalog's deprecation messages for a package, channels and a bundle. The zero value means
// that they are unknown.
type Deprecations struct {
	// Known is true if a catalog with the package is available.
	Known bool
	// Package is the message for the package, or "".
	Package string
	// Channels contains the requested channels that are deprecated, sorted by name.
	Channels []Deprecation
	// HasBundle is true if the catalog has the bundle; Bundle is the message for it, or "".
	HasBundle bool
	Bundle    string
}

// Deprecation is a deprecated channel.
type Deprecation struct {
	Name, Message string
}

// Any reports whether anything is deprecated.
func (d Deprecations) Any() bool { return d.Package != "" || len(d.Channels) > 0 || d.Bundle != "" }

// DeprecationsOf returns the deprecations of a package that affect users of these channels and this bundle.
func DeprecationsOf(p *catalog.Package, channels []string, bundle string) Deprecations {
	out := Deprecations{Known: true, Package: p.Deprecation}
	for _, name := range p.ChannelNames() {
		if message := p.Channels[name].Deprecation; message != "" && slices.Contains(channels, name) {
			out.Channels = append(out.Channels, Deprecation{name, message})
		}
	}
	if b := p.Bundles[bundle]; b != nil {
		out.HasBundle, out.Bundle = true, b.Deprecation
		if out.Bundle == "" && isDeprecated(b) {
			out.Bundle = "the catalog marks the bundle as deprecated"
		}
	}
	return out
}
