package resolve

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Policy determines which bundles can follow the installed one.
type Policy string

// Policies (spec.source.catalog.upgradeConstraintPolicy).
const (
	// CatalogProvided allows the upgrades that the catalog's upgrade graph contains. It is the default.
	CatalogProvided Policy = "CatalogProvided"
	// SelfCertified allows any bundle, including downgrades.
	SelfCertified Policy = "SelfCertified"
)

// Catalog is a ClusterCatalog that Resolve can use. Callers omit catalogs that an administrator has disabled.
type Catalog struct {
	Name     string
	Labels   map[string]string
	Priority int32
	// Snapshot is the content; nil if it is not available.
	Snapshot *catalog.Snapshot
}

// Installed identifies the installed bundle.
type Installed struct {
	Name, Version string
}

// Request is the part of a ClusterExtension that determines the bundle.
type Request struct {
	Package string
	// Versions is a range of semantic versions; "" means all.
	Versions string
	// Channels restricts the bundles to those in at least one of these channels. If it is empty, all channels are used.
	Channels []string
	// Selector selects catalogs by label; nil selects all.
	Selector labels.Selector
	// Policy defaults to CatalogProvided.
	Policy Policy
	// Installed is the installed bundle; nil if there is none.
	Installed *Installed
}

// Selects reports whether a catalog with these labels may be used.
func (r Request) Selects(catalog map[string]string) bool {
	return r.Selector == nil || r.Selector.Matches(labels.Set(catalog))
}

// Result contains the selected bundle. If Resolve fails, only Catalog, Package and Deprecations are set, and only if the
// catalog is unambiguous.
type Result struct {
	// Catalog is the name of the catalog, and Package its package.
	Catalog string
	Package *catalog.Package
	// Snapshot is the content of the catalog, and Channel is a channel that contains Bundle.
	Snapshot *catalog.Snapshot
	Channel  string
	// Bundle is nil if the installed version is kept although no catalog provides it; Kept is the reason.
	Bundle *catalog.Bundle
	Kept   string
	// Deprecations contains the deprecations of Bundle or, if it is nil, of the installed bundle.
	Deprecations Deprecations
}

// Resolve selects a bundle. The error is a *Problem.
func Resolve(catalogs []Catalog, r Request) (Result, error) {
	inRange, err := parseRange(r.Versions)
	if err != nil {
		return Result{}, &Problem{InvalidVersionRange, err.Error()}
	}
	s := newSearch(catalogs, r, inRange)
	best := s.best()
	switch {
	case len(best) == 0:
		return s.failed(s.nothingFound())
	case s.mayBePreempted(best[0]):
		return s.failed(s.preempted(best[0]))
	case len(best) > 1:
		return s.failed(s.ambiguous(best))
	}
	found := best[0].candidates[0]
	return Result{
		Catalog: best[0].catalog.Name, Package: best[0].pkg, Snapshot: best[0].catalog.Snapshot,
		Channel: found.channel(best[0].pkg), Bundle: found.bundle,
		Deprecations: DeprecationsOf(best[0].pkg, r.Channels, found.bundle.Name),
	}, nil
}

// search is one resolution.
type search struct {
	Request
	inRange func(version) bool
	// all contains all catalogs. selected contains the catalogs that match the selector, ordered by priority and name.
	// unavailable contains the selected catalogs whose content is not available.
	all, selected, unavailable []Catalog
	// offers contains the selected catalogs that have the package, in the same order.
	offers []offer
}

// offer is the package in one catalog.
type offer struct {
	catalog Catalog
	pkg     *catalog.Package
	// candidates contains the bundles that satisfy the request, preferred bundles first.
	candidates []candidate
}

func newSearch(catalogs []Catalog, r Request, inRange func(version) bool) *search {
	s := &search{Request: r, inRange: inRange, all: slices.Clone(catalogs)}
	slices.SortFunc(s.all, func(a, b Catalog) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range s.all {
		if !r.Selects(c.Labels) {
			continue
		}
		s.selected = append(s.selected, c)
		if c.Snapshot == nil {
			s.unavailable = append(s.unavailable, c)
		} else if p := c.Snapshot.Packages[r.Package]; p != nil {
			s.offers = append(s.offers, offer{catalog: c, pkg: p, candidates: s.candidatesOf(p)})
		}
	}
	return s
}

// best returns the offers with the highest priority among those with candidates.
func (s *search) best() []offer {
	var out []offer
	for _, o := range s.offers {
		if len(o.candidates) > 0 && (len(out) == 0 || o.catalog.Priority == out[0].catalog.Priority) {
			out = append(out, o)
		}
	}
	return out
}

// mayBePreempted reports whether a catalog whose content is not available has a higher priority.
func (s *search) mayBePreempted(best offer) bool {
	return len(s.unavailable) > 0 && s.unavailable[0].Priority > best.catalog.Priority
}

// failed returns the result for a problem. The installed version is kept if it still satisfies the request.
func (s *search) failed(p *Problem) (Result, error) {
	out := Result{}
	if len(s.offers) == 1 || len(s.offers) > 1 && s.offers[0].catalog.Priority > s.offers[1].catalog.Priority {
		out.Catalog, out.Package = s.offers[0].catalog.Name, s.offers[0].pkg
	}
	if s.Installed != nil && out.Package != nil {
		out.Deprecations = DeprecationsOf(out.Package, s.Channels, s.Installed.Name)
	}
	if !s.keeps(p) {
		return out, p
	}
	out.Kept = fmt.Sprintf("the installed version %s is kept: %s", s.Installed.Version, p.Message)
	return out, nil
}

// keeps reports whether the installed version satisfies the request, as far as can be determined from the catalogs.
func (s *search) keeps(p *Problem) bool {
	if s.Installed == nil {
		return false
	}
	switch p.Reason {
	case NoCatalogSelected, CatalogUnavailable, PackageNotFound:
	case NoMatchingUpgrade:
		if slices.ContainsFunc(s.offers, func(o offer) bool { return o.pkg.Bundles[s.Installed.Name] != nil }) {
			return false
		}
	default:
		return false
	}
	if s.Versions == "" {
		return true
	}
	v, ok := parseVersion(s.Installed.Version)
	return ok && s.inRange(v)
}
