package resolver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// Indexes caches an index of each catalog for as long as the catalog's content is unchanged. The zero value is ready
// to use.
type Indexes struct {
	mu        sync.Mutex
	byCatalog map[types.NamespacedName]*lazyIndex
	// programs caches the CEL rules of all catalogs.
	programs programs
	// searches caches the results of searches in global catalogs.
	searches searches
}

// lazyIndex is built by the first caller that needs it. Other callers wait until it is built or their time limit is
// reached.
type lazyIndex struct {
	digest string
	// turn is a channel with a buffer of one that is used as a lock, so that waiting for the lock can be canceled.
	turn  chan struct{}
	index *index
}

// get returns the index, building it if necessary. It returns nil if the meter has an error.
func (l *lazyIndex) get(m *meter, s *catalog.Snapshot, global *searches) *index {
	select {
	case l.turn <- struct{}{}:
	case <-m.ctx.Done():
		_ = m.checkContext() // the meter records the error
		return nil
	}
	defer func() { <-l.turn }()
	m.attribute(&operator{facts: &facts{}, catalog: s.Key})
	defer m.attribute(nil)
	if l.index == nil {
		if l.index = newIndex(m, s); l.index != nil {
			l.index.global = global
		}
	} else if m.Spend(l.index.cost) != nil {
		return nil
	}
	return l.index
}

// get returns the index of a Snapshot. The index is built at most once per content. get returns nil if the meter has an
// error.
func (x *Indexes) get(m *meter, s *catalog.Snapshot) *index {
	x.mu.Lock()
	if x.byCatalog == nil {
		x.byCatalog = map[types.NamespacedName]*lazyIndex{}
	}
	lazy := x.byCatalog[s.Key]
	if lazy == nil || lazy.digest != s.Digest || lazy.digest == "" {
		lazy = &lazyIndex{digest: s.Digest, turn: make(chan struct{}, 1)}
		x.byCatalog[s.Key] = lazy
		x.searches.forget(s.Key)
	}
	x.mu.Unlock()
	return lazy.get(m, s, &x.searches)
}

// prune removes the indexes of catalogs that no longer exist.
func (x *Indexes) prune(catalogs Catalogs) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key := range x.byCatalog {
		if _, ok := catalogs.Get(key); !ok {
			delete(x.byCatalog, key)
			x.searches.forget(key)
		}
	}
}

// index finds a catalog's bundles by what they provide.
type index struct {
	key      types.NamespacedName
	packages map[string]*catalog.Package
	names    []string
	bundles  map[string]map[string]*facts
	ordered  map[string][]*facts // bundles of a package sorted by name, so that a search always has the same cost
	owners   map[api][]string    // sorted packages with a bundle that owns the kind
	// cost is the cost of building the index. Callers that find the index already built incur this cost as well.
	cost int

	mu     sync.Mutex
	chains map[[2]string]*chain
	// sorted contains the channel names of a package; operators contains at most one operator for each bundle in a
	// channel.
	sorted    map[string][]string
	operators map[place]*operator
	// global caches the results of searches if this is the index of a global catalog.
	global *searches
}

// place is a bundle in a channel.
type place struct {
	channel string
	facts   *facts
}

// pay charges the meter for a part of the index. Indexes of global catalogs are free: they are built once for all
// namespaces, and the whole cluster trusts their authors.
func (x *index) pay(m *meter, cost int) error {
	if x.key.Namespace == m.global {
		return m.checkContext()
	}
	x.cost += cost
	return m.Spend(cost)
}

// costOfPackage returns the cost of indexing a package. This includes its channels, although they are read only on
// first use.
func costOfPackage(p *catalog.Package) int {
	cost := costOfItem
	for _, c := range p.Channels {
		cost += costOfItem
		for _, e := range c.Entries {
			cost += costOfCandidate + len(e.Skips)
		}
	}
	return cost
}

// costOfFacts returns the cost of factsOf and of indexing its kinds.
func costOfFacts(b *catalog.Bundle) int {
	cost := costOfItem + len(b.Properties)
	for _, p := range b.Properties {
		if p.Type == property.TypeGVK {
			cost += costOfItem + len(p.Value)*costOfByte/10
		}
	}
	return cost
}

// newIndex builds the index of a Snapshot. It returns nil if the meter has an error.
func newIndex(m *meter, s *catalog.Snapshot) *index {
	x := &index{
		key: s.Key, packages: s.Packages, names: s.PackageNames(),
		bundles: make(map[string]map[string]*facts, len(s.Packages)), owners: map[api][]string{}, ordered: make(map[string][]*facts, len(s.Packages)),
		chains: map[[2]string]*chain{}, sorted: map[string][]string{}, operators: map[place]*operator{},
	}
	for _, name := range x.names {
		p := s.Packages[name]
		if x.pay(m, costOfPackage(p)) != nil {
			return nil
		}
		all, ordered := make(map[string]*facts, len(p.Bundles)), make([]*facts, 0, len(p.Bundles))
		bundles := slices.AppendSeq(make([]*catalog.Bundle, 0, len(p.Bundles)), maps.Values(p.Bundles))
		slices.SortFunc(bundles, func(a, b *catalog.Bundle) int { return strings.Compare(a.Name, b.Name) })
		for _, b := range bundles {
			if x.pay(m, costOfFacts(b)) != nil {
				return nil
			}
			f := factsOf(b)
			all[b.Name] = f
			ordered = append(ordered, f)
			for _, a := range f.apis {
				if owners := x.owners[a]; len(owners) == 0 || owners[len(owners)-1] != name {
					x.owners[a] = append(owners, name)
				}
			}
		}
		x.bundles[name], x.ordered[name] = all, ordered
	}
	return x
}

// chain lists the entries of a channel that can be reached from its head by following the "replaces" fields. The other
// entries are skipped by one of these, and are installed only if a startingCSV names them.
type chain struct {
	entries []catalog.Entry
	// installable contains the versions that can be installed if none is installed yet, newest first, without those
	// that another entry skips.
	installable []string
	// cost is the cost of iterating over the entries.
	cost int
	err  error
}

// chainOf returns the chain of an existing channel.
func (x *index) chainOf(pkg, channel string) *chain {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := [2]string{pkg, channel}
	c := x.chains[key]
	if c == nil {
		c = newChain(x.packages[pkg].Channels[channel])
		x.chains[key] = c
	}
	return c
}

func newChain(c *catalog.Channel) *chain {
	head, err := c.Head()
	if err != nil {
		return &chain{err: err}
	}
	out := &chain{}
	seen := map[string]bool{}
	for e, ok := head, true; ok; e, ok = c.Entries[e.Replaces] {
		if seen[e.Name] {
			return &chain{err: fmt.Errorf("channel %q has a cycle: %q replaces itself, directly or indirectly", c.Name, e.Name)}
		}
		seen[e.Name] = true
		out.entries = append(out.entries, e)
		out.cost += costOfEntry + len(e.Skips) + len(e.SkipRange)
	}
	out.installable = out.unskipped()
	return out
}

func (c *chain) unskipped() []string {
	skipped := map[string]bool{}
	for _, e := range c.entries {
		for _, s := range e.Skips {
			skipped[s] = true
		}
	}
	var out []string
	for i, e := range c.entries {
		if i == 0 || !skipped[e.Name] {
			out = append(out, e.Name)
		}
	}
	return out
}

// successors returns, newest first, the bundles that can replace the installed bundle "current" according to replaces,
// skips or skipRange. It omits deprecated bundles and downgrades.
func (c *chain) successors(current *facts, bundles map[string]*facts) []*facts {
	var out []*facts
	for _, e := range c.entries {
		if e.Name == current.name {
			break
		}
		f := bundles[e.Name]
		if f == nil || f.deprecated {
			continue
		}
		if e.Replaces == current.name || slices.Contains(e.Skips, current.name) || inSkipRange(e, current.version, f.version) {
			out = append(out, f)
		}
	}
	return out
}

// inSkipRange reports whether the entry's skipRange contains the version "from" and the entry is newer. It is false if
// either version is unknown (escape suite 101).
func inSkipRange(e catalog.Entry, from, to *semver.Version) bool {
	if e.SkipRange == "" || from == nil || to == nil || to.LTE(*from) {
		return false
	}
	inRange, err := versions.ParseRange(e.SkipRange)
	return err == nil && inRange(*from)
}

// search returns the candidates for a requirement, sorted by package. Within a package, the default channel comes
// first, then the others by name; within a channel, the newest version comes first. search returns nil if the meter has
// an error.
func (x *index) search(m *meter, r requirement) []*operator {
	remembered := x.searchesOf(m)
	if known, ok := remembered.get(x, r.key); ok {
		if m.Spend(known.cost) != nil {
			return nil
		}
		return known.operators
	}
	var found []*operator
	before := m.spent
	packages := x.packagesFor(r)
	if m.Spend(len(packages)) != nil {
		return nil
	}
	for _, pkg := range packages {
		if x.anyMatches(m, pkg, r) {
			found = append(found, x.searchIn(m, pkg, r)...)
		}
		if m.err != nil {
			return nil
		}
	}
	remembered.add(x, r.key, hits{found, m.spent - before})
	return found
}

// searchIn searches one package.
func (x *index) searchIn(m *meter, pkg string, r requirement) (hits []*operator) {
	for _, channel := range x.channels(m, pkg) {
		names := x.chainOf(pkg, channel).installable
		if m.Spend(len(names)) != nil {
			return nil
		}
		for _, name := range names {
			if f := x.bundles[pkg][name]; f != nil && !f.deprecated && r.match(m, f) {
				hits = append(hits, x.operator(channel, f))
			}
		}
	}
	return hits
}

// operator returns the shared operator for a version in a channel. Callers must not modify it.
func (x *index) operator(channel string, f *facts) *operator {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := place{channel, f}
	o := x.operators[key]
	if o == nil {
		o = x.newOperator(channel, f)
		x.operators[key] = o
	}
	return o
}

// newOperator returns an operator that the caller may modify.
func (x *index) newOperator(channel string, f *facts) *operator {
	return &operator{
		facts: f, catalog: x.key, channel: channel,
		id: sat.ID(x.key.Name + "/" + x.key.Namespace + "/" + channel + "/" + f.name),
	}
}

func (x *index) anyMatches(m *meter, pkg string, r requirement) bool {
	for _, f := range x.ordered[pkg] {
		if m.Spend(1) != nil || r.match(m, f) {
			return m.err == nil
		}
	}
	return false
}

func (x *index) packagesFor(r requirement) []string {
	if len(r.pkgs)+len(r.apis) == 0 {
		return x.names
	}
	var out []string
	for _, p := range r.pkgs {
		if x.packages[p] != nil {
			out = append(out, p)
		}
	}
	for _, a := range r.apis {
		out = append(out, x.owners[a]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// channels returns a package's channel names, the default channel first and then the others by name. The result is
// cached.
func (x *index) channels(m *meter, pkg string) []string {
	p := x.packages[pkg]
	if m.Spend(len(p.Channels)) != nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if names, ok := x.sorted[pkg]; ok {
		return names
	}
	out := p.ChannelNames()
	if i := slices.Index(out, p.DefaultChannel); i > 0 {
		out = slices.Insert(slices.Delete(out, i, i+1), 0, p.DefaultChannel)
	}
	x.sorted[pkg] = out
	return out
}
