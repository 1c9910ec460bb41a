package resolver

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// Indexes keep, for each catalog, what is looked up in it, for as long as its content is the same. The zero
// value is ready to use.
type Indexes struct {
	mu sync.Mutex
	of map[types.NamespacedName]*lazyIndex
	// programs are the CEL rules of all catalogs.
	programs programs
}

// lazyIndex is made by the first who needs it. Who else does waits for that, within the time that it has.
type lazyIndex struct {
	digest string
	// turn is held by who makes it, or takes it.
	turn  chan struct{}
	index *index
}

// get returns the index, which is nil where the meter has an error by then.
func (l *lazyIndex) get(m *meter, s *catalog.Snapshot) *index {
	select {
	case l.turn <- struct{}{}:
	case <-m.ctx.Done():
		_ = m.look() // the meter keeps it
		return nil
	}
	defer func() { <-l.turn }()
	m.blame(&operator{facts: &facts{}, catalog: s.Key})
	defer m.blame(nil)
	if l.index == nil {
		l.index = newIndex(m, s)
	} else if m.Spend(l.index.cost) != nil {
		return nil
	}
	return l.index
}

// get returns the index of a Snapshot, made at most once for a content; nil where the meter has an error by then.
func (x *Indexes) get(m *meter, s *catalog.Snapshot) *index {
	x.mu.Lock()
	if x.of == nil {
		x.of = map[types.NamespacedName]*lazyIndex{}
	}
	lazy := x.of[s.Key]
	if lazy == nil || lazy.digest != s.Digest || lazy.digest == "" {
		lazy = &lazyIndex{digest: s.Digest, turn: make(chan struct{}, 1)}
		x.of[s.Key] = lazy
	}
	x.mu.Unlock()
	return lazy.get(m, s)
}

// drop lets go of the indexes of catalogs that are gone.
func (x *Indexes) drop(catalogs Catalogs) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key := range x.of {
		if _, ok := catalogs.Get(key); !ok {
			delete(x.of, key)
		}
	}
}

// index is a catalog's bundles by what they offer.
type index struct {
	key      types.NamespacedName
	digest   string
	packages map[string]*catalog.Package
	names    []string
	bundles  map[string]map[string]*facts
	ordered  map[string][]*facts // bundles of a package by name: what a search costs is always the same
	owners   map[api][]string    // packages with a bundle that owns it, sorted
	// cost is that of making it, which who finds it made pays, too.
	cost int

	mu     sync.Mutex
	chains map[[2]string]*chain
	// sorted are the names of the channels of a package, operators those that were found: one for each entry at most.
	sorted    map[string][]string
	operators map[place]*operator
	hits      map[string]hits
	held      int // answers, and versions in them
}

// place is a bundle in a channel.
type place struct {
	channel string
	facts   *facts
}

// pay spends what a part of the index costs. That of a global catalog is free: it is made once for all namespaces, and its
// authors speak for the whole cluster.
func (x *index) pay(m *meter, cost int) error {
	if x.key.Namespace == m.global {
		return m.look()
	}
	x.cost += cost
	return m.Spend(cost)
}

// costOfPackage is that of a package's channels, whenever they are looked at first.
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

// costOfFacts is that of factsOf, and of the owners of its kinds.
func costOfFacts(b *catalog.Bundle) int {
	cost := costOfItem + len(b.Properties)
	for _, p := range b.Properties {
		if p.Type == property.TypeGVK {
			cost += costOfItem + len(p.Value)*costOfByte/10
		}
	}
	return cost
}

// newIndex returns nil where the meter has an error by then.
func newIndex(m *meter, s *catalog.Snapshot) *index {
	x := &index{
		key: s.Key, digest: s.Digest, packages: s.Packages, names: s.PackageNames(),
		bundles: make(map[string]map[string]*facts, len(s.Packages)), owners: map[api][]string{}, ordered: make(map[string][]*facts, len(s.Packages)),
		chains: map[[2]string]*chain{}, sorted: map[string][]string{}, operators: map[place]*operator{}, hits: map[string]hits{},
	}
	for _, name := range x.names {
		p := s.Packages[name]
		if x.pay(m, costOfPackage(p)) != nil {
			return nil
		}
		all, ordered := make(map[string]*facts, len(p.Bundles)), make([]*facts, 0, len(p.Bundles))
		bundles := slices.AppendSeq(make([]string, 0, len(p.Bundles)), maps.Keys(p.Bundles))
		slices.Sort(bundles)
		for _, bundle := range bundles {
			b := p.Bundles[bundle]
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

// chain is a channel from its head down along replaces. Entries that are not on it are skipped by one that is,
// and never installed.
type chain struct {
	entries []catalog.Entry
	// fresh are the versions that may be installed where there is none: the newest first, and none that another one
	// says to skip.
	fresh []string
	// cost is that of going through the entries.
	cost int
	err  error
}

// chainOf returns the chain of a channel that is there.
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
			return &chain{err: fmt.Errorf("channel %q has a cycle: %q replaces itself in the end", c.Name, e.Name)}
		}
		seen[e.Name] = true
		out.entries = append(out.entries, e)
		out.cost += costOfEntry + len(e.Skips) + len(e.SkipRange)
	}
	out.fresh = out.unskipped()
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

// successors are the versions that may take the place of an installed one, the newest first: by replaces,
// skips or skipRange. None leads back.
func (c *chain) successors(current string, version *semver.Version, versionOf func(string) *semver.Version) []string {
	var out []string
	for _, e := range c.entries {
		if e.Name == current {
			break
		}
		if e.Replaces == current || slices.Contains(e.Skips, current) || jumps(e, version, versionOf(e.Name)) {
			out = append(out, e.Name)
		}
	}
	return out
}

// jumps says whether the entry's skipRange leads to it from a version, and forward: where a version is not known,
// nobody can tell (escape suite 101).
func jumps(e catalog.Entry, from, to *semver.Version) bool {
	if e.SkipRange == "" || from == nil || to == nil || to.LTE(*from) {
		return false
	}
	inRange, err := semver.ParseRange(e.SkipRange)
	return err == nil && inRange(*from)
}

const (
	// maxRemembered bounds the answers that an index keeps, with the versions in them.
	maxRemembered = 200_000
	// bytesPerHit is how many bytes of a question weigh as much as a version.
	bytesPerHit = 64
)

// hits answer a question: what matches, and what it costs to find that, which who finds the answer here pays, too.
type hits struct {
	operators []*operator
	cost      int
}

// search finds what may match a requirement: package by package, in each the default channel first, then the
// others by name, in each the newest first.
func (x *index) search(m *meter, r requirement) []*operator {
	x.mu.Lock()
	known, ok := x.hits[r.key]
	x.mu.Unlock()
	if ok {
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
	x.mu.Lock()
	defer x.mu.Unlock()
	weight := 1 + len(found) + len(r.key)/bytesPerHit
	if x.held += weight; x.held > maxRemembered {
		clear(x.hits)
		x.held = weight
	}
	x.hits[r.key] = hits{found, m.spent - before}
	return found
}

// searchIn is search in one package.
func (x *index) searchIn(m *meter, pkg string, r requirement) (hits []*operator) {
	for _, channel := range x.channels(m, pkg) {
		names := x.chainOf(pkg, channel).fresh
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

// operator is a version by a channel of the catalog, the same one each time: nobody changes it.
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

// newOperator is operator for one that is changed, or that is in no catalog.
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

// channels are those of a package: the default one first, then the others by name. They are sorted once.
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
	out := make([]string, 0, len(p.Channels))
	if p.Channels[p.DefaultChannel] != nil {
		out = append(out, p.DefaultChannel)
	}
	for _, name := range p.ChannelNames() {
		if name != p.DefaultChannel {
			out = append(out, name)
		}
	}
	x.sorted[pkg] = out
	return out
}
