package resolve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Reason classifies a Problem.
type Reason string

// Reasons of a Problem.
const (
	InvalidVersionRange Reason = "InvalidVersionRange"
	NoCatalogSelected   Reason = "NoCatalogSelected"
	CatalogUnavailable  Reason = "CatalogUnavailable"
	PackageNotFound     Reason = "PackageNotFound"
	ChannelNotFound     Reason = "ChannelNotFound"
	NoMatchingVersion   Reason = "NoMatchingVersion"
	NoMatchingUpgrade   Reason = "NoMatchingUpgrade"
	SeveralCatalogs     Reason = "SeveralCatalogs"
)

// Problem reports why no bundle was selected, and which alternatives exist. It persists until the request or a catalog
// changes.
type Problem struct {
	Reason  Reason
	Message string
}

func (p *Problem) Error() string { return p.Message }

// nothingFound returns the Problem for the first part of the request that no catalog satisfies.
func (s *search) nothingFound() *Problem {
	switch {
	case len(s.selected) == 0:
		return s.noCatalog()
	case len(s.offers) == 0:
		return s.noPackage()
	case !s.hasChannel():
		return s.noChannel()
	}
	matching := s.versions(func(c candidate) bool { return s.inRange(c.version) })
	if len(matching) == 0 {
		return s.noVersion()
	}
	return s.noUpgrade(matching)
}

func (s *search) noCatalog() *Problem {
	if len(s.all) == 0 {
		return &Problem{NoCatalogSelected, "no ClusterCatalog is available"}
	}
	return &Problem{NoCatalogSelected, fmt.Sprintf("no available ClusterCatalog matches the selector %q; available ClusterCatalogs: %s",
		s.Selector, listed(catalogNames(s.all)))}
}

func (s *search) noPackage() *Problem {
	text := fmt.Sprintf("package %q was not found", s.Package)
	if available := s.available(); len(available) > 0 {
		text += " in " + clusterCatalogs(available)
	}
	var others []Catalog
	for _, c := range s.all {
		if c.Snapshot != nil && c.Snapshot.Packages[s.Package] != nil {
			others = append(others, c) // not selected, because no selected catalog has the package
		}
	}
	if len(others) > 0 {
		text += fmt.Sprintf("; it is in %s, but the selector is %q", clusterCatalogs(others), s.Selector)
	} else if names := similar(s.Package, s.packageNames()); len(names) > 0 {
		text += "; packages with similar names: " + listed(names)
	}
	if len(s.unavailable) > 0 {
		return &Problem{CatalogUnavailable, text + "; not available: the content of " + clusterCatalogs(s.unavailable)}
	}
	return &Problem{PackageNotFound, text}
}

// available returns the selected catalogs whose content is available.
func (s *search) available() []Catalog {
	return slices.DeleteFunc(slices.Clone(s.selected), func(c Catalog) bool { return c.Snapshot == nil })
}

// packageNames returns names of packages in the selected catalogs, at most maxCompared.
func (s *search) packageNames() []string {
	var out []string
	for _, c := range s.available() {
		names := c.Snapshot.PackageNames()
		out = append(out, names[:min(len(names), maxCompared-len(out))]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *search) hasChannel() bool {
	return slices.ContainsFunc(s.offers, func(o offer) bool { return len(s.channelsIn(o.pkg)) > 0 })
}

func (s *search) noChannel() *Problem {
	var names []string
	for _, o := range s.offers {
		names = append(names, o.pkg.ChannelNames()...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, wanted := range s.Channels[:min(len(s.Channels), maxNamed)] { // those that the message names
		near := Similar(wanted, names)
		names = append(near, slices.DeleteFunc(names, func(name string) bool { return slices.Contains(near, name) })...)
	}
	return &Problem{ChannelNotFound, fmt.Sprintf("package %q has no channel %s; available channels: %s", s.Package,
		strings.Join(shortened(quoted(s.Channels)), " or "), listed(names))}
}

func (s *search) noVersion() *Problem {
	all := s.versions(func(candidate) bool { return true })
	if len(all) == 0 {
		return &Problem{NoMatchingVersion, fmt.Sprintf("package %q has no bundle with a valid version%s", s.Package, s.inChannels())}
	}
	return &Problem{NoMatchingVersion, fmt.Sprintf("package %q has no version in the range %q%s; newest versions: %s", s.Package, s.Versions,
		s.inChannels(), listed(all))}
}

// noUpgrade explains that no version in range can follow the installed one.
func (s *search) noUpgrade(matching []string) *Problem {
	text := fmt.Sprintf("the upgrade graph of package %q has no upgrade from the installed bundle %q%s", s.Package, s.Installed.Name, s.inChannels())
	if s.Versions != "" {
		text += fmt.Sprintf(" to a version in the range %q", s.Versions)
	}
	anyChannel := *s
	anyChannel.Channels = nil
	var upgrades []string
	for _, o := range s.offers {
		allowed := s.upgradesIn(o.pkg)
		upgrades = append(upgrades, versionsOf(anyChannel.versionsIn(o.pkg, func(c candidate) bool {
			return c.bundle.Name != s.Installed.Name && allowed(c)
		}))...)
	}
	if len(upgrades) > 0 {
		text += "; available upgrades: " + listed(distinct(upgrades))
	}
	return &Problem{NoMatchingUpgrade, text + "; requested versions that are not upgrades: " + listed(matching) +
		"; upgradeConstraintPolicy SelfCertified allows these"}
}

func (s *search) inChannels() string {
	if len(s.Channels) == 0 {
		return ""
	}
	return " in channel " + strings.Join(shortened(quoted(s.Channels)), " or ")
}

// versions returns the versions in the requested channels of all offers for which keep returns true, newest first.
func (s *search) versions(keep func(candidate) bool) []string {
	var all []candidate
	for _, o := range s.offers {
		all = append(all, s.versionsIn(o.pkg, keep)...)
	}
	return versionsOf(all)
}

func versionsOf(all []candidate) []string {
	slices.SortFunc(all, newestFirst)
	out := make([]string, 0, len(all))
	for _, c := range all {
		out = append(out, c.bundle.Version)
	}
	return distinct(out)
}

// distinct removes repeated values and keeps the order.
func distinct(all []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(text string) bool {
		again := seen[text]
		seen[text] = true
		return again
	})
}

func (s *search) preempted(best offer) *Problem {
	higher := slices.DeleteFunc(slices.Clone(s.unavailable), func(c Catalog) bool { return c.Priority <= best.catalog.Priority })
	return &Problem{CatalogUnavailable, fmt.Sprintf("package %q is available in ClusterCatalog %q, but the content of %s, with a higher priority, is not available",
		s.Package, best.catalog.Name, clusterCatalogs(higher))}
}

func (s *search) ambiguous(best []offer) *Problem {
	var catalogs []Catalog
	for _, o := range best {
		catalogs = append(catalogs, o.catalog)
	}
	// Tools compare the text before the colon, which is OLM v1's.
	return &Problem{SeveralCatalogs, fmt.Sprintf("found bundles for package %q in multiple catalogs with the same priority [%s]: select one with "+
		"spec.source.catalog.selector, for example by the label olm.operatorframework.io/metadata.name, or give them different values of spec.priority (%d)",
		s.Package, strings.Join(shortened(catalogNames(catalogs)), " "), catalogs[0].Priority)}
}

func catalogNames(all []Catalog) []string {
	out := make([]string, 0, len(all))
	for _, c := range all {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}

// clusterCatalogs returns "ClusterCatalog" or "ClusterCatalogs", followed by the names.
func clusterCatalogs(all []Catalog) string {
	if len(all) == 1 {
		return "ClusterCatalog " + strconv.Quote(all[0].Name)
	}
	return "ClusterCatalogs " + listed(quoted(catalogNames(all)))
}

// maxNamed bounds the number of names or versions that a message lists.
const maxNamed = 5

// shortened returns at most maxNamed items and, if there are more, a count of the others.
func shortened(all []string) []string {
	if len(all) <= maxNamed {
		return all
	}
	return append(slices.Clone(all[:maxNamed]), fmt.Sprintf("%d more", len(all)-maxNamed))
}

func listed(all []string) string { return strings.Join(shortened(all), ", ") }

func quoted(all []string) []string {
	out := make([]string, 0, len(all))
	for _, text := range all {
		out = append(out, strconv.Quote(text))
	}
	return out
}
