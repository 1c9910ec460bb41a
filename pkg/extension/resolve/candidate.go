package resolve

import (
	"cmp"
	"slices"

	"github.com/remit-olm/remit/pkg/catalog"
)

// candidate is a bundle that satisfies the request.
type candidate struct {
	bundle  *catalog.Bundle
	version version
	// channels are the channels through which the bundle was found, sorted.
	channels []string
	// penalty is higher for bundles that are selected only if there is no alternative: 1 if all channels of the bundle are
	// deprecated, and 2 more if the bundle is deprecated itself.
	penalty int
}

// typeDeprecated is the property with which older catalogs mark a bundle that must not be newly installed.
const typeDeprecated = "olm.deprecated"

// candidatesOf returns the bundles of a package that satisfy the request, preferred bundles first.
func (s *search) candidatesOf(p *catalog.Package) []candidate {
	allowed := s.upgradesIn(p)
	out := s.versionsIn(p, func(c candidate) bool { return s.inRange(c.version) && allowed(c) })
	out = s.withoutDowngrades(out)
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.penalty, b.penalty), newestFirst(a, b))
	})
	return out
}

func newestFirst(a, b candidate) int {
	return cmp.Or(b.version.compare(a.version), cmp.Compare(a.bundle.Name, b.bundle.Name))
}

// versionsIn returns the bundles in the requested channels of a package for which keep returns true. Bundles without a
// valid version are omitted.
func (s *search) versionsIn(p *catalog.Package, keep func(candidate) bool) []candidate {
	by := map[string]*candidate{}
	for _, name := range s.channelsIn(p) {
		c := p.Channels[name]
		for entry := range c.Entries {
			b := p.Bundles[entry]
			if b == nil {
				continue
			}
			if by[entry] == nil {
				by[entry] = &candidate{bundle: b}
			}
			by[entry].channels = append(by[entry].channels, name)
		}
	}
	var out []candidate
	for _, c := range by {
		v, ok := parseVersion(c.bundle.Version)
		if !ok {
			continue
		}
		c.version, c.penalty = v, penalty(p, c)
		if keep(*c) {
			out = append(out, *c)
		}
	}
	return out
}

// channelsIn returns the requested channels that a package has, or all of its channels if none are requested, sorted.
func (s *search) channelsIn(p *catalog.Package) []string {
	names := p.ChannelNames()
	if len(s.Channels) == 0 {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(s.Channels, name) })
}

func penalty(p *catalog.Package, c *candidate) int {
	n := 0
	if isDeprecated(c.bundle) {
		n += 2
	}
	if !slices.ContainsFunc(c.channels, func(name string) bool { return p.Channels[name].Deprecation == "" }) {
		n++
	}
	return n
}

func isDeprecated(b *catalog.Bundle) bool {
	return b.Deprecation != "" || slices.ContainsFunc(b.Properties, func(p catalog.Property) bool { return p.Type == typeDeprecated })
}

// channel returns the channel to use for the bundle: the first that is not deprecated, or else the first.
func (c candidate) channel(p *catalog.Package) string {
	if i := slices.IndexFunc(c.channels, func(name string) bool { return p.Channels[name].Deprecation == "" }); i >= 0 {
		return c.channels[i]
	}
	return c.channels[0]
}

// upgradesIn returns a function that reports whether a bundle of a package can follow the installed one.
func (s *search) upgradesIn(p *catalog.Package) func(candidate) bool {
	if s.Installed == nil || s.Policy == SelfCertified {
		return func(candidate) bool { return true }
	}
	installed, known := parseVersion(s.Installed.Version)
	return func(c candidate) bool {
		return c.bundle.Name == s.Installed.Name || slices.ContainsFunc(c.channels, func(name string) bool {
			e := p.Channels[name].Entries[c.bundle.Name]
			return e.Replaces == s.Installed.Name || slices.Contains(e.Skips, s.Installed.Name) ||
				known && e.SkipRange != "" && installed.compare(c.version) < 0 && inSkipRange(e.SkipRange, installed)
		})
	}
}

// withoutDowngrades removes the versions that are older than the installed one, unless all of them are older.
func (s *search) withoutDowngrades(all []candidate) []candidate {
	if s.Installed == nil {
		return all
	}
	installed, ok := parseVersion(s.Installed.Version)
	if !ok {
		return all
	}
	older := func(c candidate) bool { return c.version.compare(installed) < 0 && c.bundle.Name != s.Installed.Name }
	if !slices.ContainsFunc(all, func(c candidate) bool { return !older(c) }) {
		return all
	}
	return slices.DeleteFunc(all, older)
}
