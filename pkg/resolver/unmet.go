package resolver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
)

// Operator is an operator in the cluster with the properties of its bundle.
type Operator struct {
	Name, Package, Version string
	Properties             []catalog.Property
}

// Cluster describes what can meet the requirements of a bundle that is installed for the whole cluster.
type Cluster struct {
	// Installed contains the other operators in the cluster.
	Installed []Operator
	// Serves reports whether the cluster serves a kind, regardless of who installed it; nil means that it serves none.
	Serves func(schema.GroupVersionKind) bool
	// Catalogs contains all available catalogs. They do not meet requirements, but messages name the bundles in them.
	Catalogs []*catalog.Snapshot
	// Indexes caches the indexes of the catalogs. It is required.
	Indexes *Indexes
}

// Unmet is a requirement that neither an installed operator nor a kind that the cluster serves meets.
type Unmet struct {
	// Text completes the sentence "requires an operator ...". Reason is the author's own text, or "".
	Text, Reason string
	// Installed lists the installed versions of the required packages, which do not meet the requirement. Offers lists
	// bundles in the catalogs that would meet it, at most one for each package of a catalog. Both are limited.
	Installed, Offers []string
}

func (u Unmet) String() string {
	text := "requires an operator " + u.Text
	if u.Reason != "" {
		text += " (" + u.Reason + ")"
	}
	if len(u.Installed) > 0 {
		text += "; installed: " + strings.Join(u.Installed, ", ")
	}
	if len(u.Offers) == 0 {
		return text + "; no available catalog provides one"
	}
	return text + "; available: " + strings.Join(u.Offers, ", ")
}

// DescribeUnmet returns a message about a bundle's unmet requirements. It describes the first few.
func DescribeUnmet(bundle string, all []Unmet) string {
	var texts []string
	for _, u := range all[:min(len(all), maxNamed)] {
		texts = append(texts, u.String())
	}
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and has %d more unmet requirements", more))
	}
	return cutMessage(fmt.Sprintf("bundle %q %s", bundle, strings.Join(texts, "; ")))
}

// Unmet returns the requirements of a bundle that the cluster does not meet, in the bundle's order. Requirements have the
// same meaning as in Resolve, except that kinds that the cluster serves also count within an olm.constraint, as if one
// more operator provided them all. The error is a *LimitError, the context's error, or reports an invalid property of the
// bundle.
func (c Cluster) Unmet(ctx context.Context, limits Limits, b *catalog.Bundle) ([]Unmet, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	m := newMeter(ctx, Input{Indexes: c.Indexes}, limits)
	own := factsOf(b)
	asked, err := own.requirements(m)
	if m.err != nil {
		return nil, m.err
	}
	if err != nil {
		return nil, fmt.Errorf("bundle %q has an invalid dependency: %w", b.Name, err)
	}
	present := c.present(m)
	var out []Unmet
	for _, r := range dropSelfMet(m, own, asked) {
		if m.Spend(1) != nil {
			break
		}
		if !slices.ContainsFunc(present, func(f *facts) bool { return m.Spend(1) == nil && r.match(m, f) }) {
			out = append(out, c.describe(m, r, present, len(out) < maxNamed))
		}
	}
	return out, m.finish()
}

// present returns the facts of the installed operators and, as the last one, of the cluster itself.
func (c Cluster) present(m *meter) []*facts {
	var out []*facts
	for _, o := range c.Installed {
		b := &catalog.Bundle{Name: o.Name, Package: o.Package, Version: o.Version, Properties: o.Properties}
		if m.Spend(costOfFacts(b)) != nil {
			return nil
		}
		out = append(out, factsOf(b))
	}
	cluster := newFacts("", "", "")
	known := map[api]bool{}
	cluster.serves = func(a api) bool {
		served, ok := known[a]
		if !ok {
			served = c.Serves != nil && c.Serves(schema.GroupVersionKind(a))
			known[a] = served
		}
		return served
	}
	return append(out, cluster)
}

func (c Cluster) describe(m *meter, r requirement, present []*facts, search bool) Unmet {
	out := Unmet{Text: r.text, Reason: r.message}
	for _, f := range present {
		if len(out.Installed) == maxNamed || m.Spend(1+len(r.pkgs)/10) != nil {
			break
		}
		if slices.Contains(r.pkgs, f.pkg) {
			out.Installed = append(out.Installed, fmt.Sprintf("package %s, version %s", f.pkg, versionText(f.version)))
		}
	}
	if !search {
		return out
	}
	c.Indexes.prune(snapshots(c.Catalogs))
	for _, s := range c.Catalogs {
		x := c.Indexes.get(m, s)
		if x == nil {
			return out
		}
		last := ""
		for _, o := range x.search(m, r) {
			if len(out.Offers) == maxNamed {
				return out
			}
			if o.pkg != last {
				out.Offers = append(out.Offers, fmt.Sprintf("package %s, version %s, in catalog %s", o.pkg, versionText(o.version), s.Key.Name))
			}
			last = o.pkg
		}
	}
	return out
}

func versionText(v *semver.Version) string {
	if v == nil {
		return "unknown"
	}
	return v.String()
}

// snapshots implements Catalogs for a list.
type snapshots []*catalog.Snapshot

func (all snapshots) Get(key types.NamespacedName) (*catalog.Snapshot, bool) {
	i := slices.IndexFunc(all, func(s *catalog.Snapshot) bool { return s.Key == key })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}
