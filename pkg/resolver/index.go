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
	m.attribute(&operator{facts: &facts{}, origin: &origin{catalog: s.Key}})
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

// index finds a catalog's bundles by what they provide. It is kept as long as the catalog's content, so catalog.Snapshot.Size counts
// its memory; what is found in the catalog of a tenant is kept only for one resolution.
type index struct {
	key types.NamespacedName
	// text identifies the catalog in the IDs of its operators.
	text     string
	packages map[string]*catalog.Package
	names    []string
	bundles  map[string]map[string]*facts
	ordered  map[string][]*facts // bundles of a package sorted by name, so that a search always has the same cost
	owners   map[api][]string    // sorted packages with a bundle that owns the kind
	// cost is the cost of building the index. Callers that find the index already built incur this cost as well.
	cost int

	mu     sync.Mutex
	chains map[[2]string]*chain
	// sorted contains the channel names of a package; origins contains the origin for each channel name.
	sorted  map[string][]string
	origins map[string]*origin
	// global caches the results of searches if this is the index of a global catalog.
	global *searches
}

// isGlobal reports whether the index is that of a global catalog. Such indexes are shared by all namespaces.
func (x *index) isGlobal(m *meter) bool { return x.key.Namespace == m.global }

// pay charges the meter for a part of the index. Indexes of global catalogs are free: they are built once for all
// namespaces, and the whole cluster trusts their authors.
func (x *index) pay(m *meter, cost int) error {
	if x.isGlobal(m) {
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

// emptyIndex returns the index of a catalog without content.
func emptyIndex(key types.NamespacedName) *index {
	return &index{
		key: key, text: key.Name + "/" + key.Namespace,
		owners: map[api][]string{}, chains: map[[2]string]*chain{}, sorted: map[string][]string{}, origins: map[string]*origin{},
	}
}

// newIndex builds the index of a Snapshot. It returns nil if the meter has an error.
func newIndex(m *meter, s *catalog.Snapshot) *index {
	x := emptyIndex(s.Key)
	x.packages, x.names = s.Packages, s.PackageNames()
	x.bundles, x.ordered = make(map[string]map[string]*facts, len(s.Packages)), make(map[string][]*facts, len(s.Packages))
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
			f.shared = x.isGlobal(m)
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
	channel *catalog.Channel
	names   []string
	// installable contains the versions that can be installed if none is installed yet, newest first, without those
	// that another entry skips. It is names if no entry skips any.
	installable []string
	// cost is the cost of iterating over the entries.
	cost int
	err  error
	// pkg is the package. operators is set only in the chains of a global catalog.
	pkg       string
	operators []operator
}

// chainOf returns the chain of an existing channel.
func (x *index) chainOf(pkg, channel string) *chain {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := [2]string{pkg, channel}
	c := x.chains[key]
	if c == nil {
		c = newChain(x.packages[pkg].Channels[channel])
		c.pkg = pkg
		x.chains[key] = c
	}
	return c
}

func newChain(c *catalog.Channel) *chain {
	head, err := c.Head()
	if err != nil {
		return &chain{err: err}
	}
	out := &chain{channel: c}
	seen := map[string]bool{}
	for e, ok := head, true; ok; e, ok = c.Entries[e.Replaces] {
		if seen[e.Name] {
			return &chain{err: fmt.Errorf("channel %q has a cycle: %q replaces itself, directly or indirectly", c.Name, e.Name)}
		}
		seen[e.Name] = true
		out.names = append(out.names, e.Name)
		out.cost += costOfEntry + len(e.Skips) + len(e.SkipRange)
	}
	out.names = slices.Clone(out.names) // without spare capacity, because the index keeps it
	out.installable = out.unskipped()
	return out
}

func (c *chain) unskipped() []string {
	skipped := map[string]bool{}
	for _, name := range c.names {
		for _, s := range c.channel.Entries[name].Skips {
			skipped[s] = true
		}
	}
	if len(skipped) == 0 {
		return c.names
	}
	var out []string
	for i, name := range c.names {
		if i == 0 || !skipped[name] {
			out = append(out, name)
		}
	}
	return slices.Clone(out)
}

// successors returns, newest first, the bundles that can replace the installed bundle "current" according to replaces,
// skips or skipRange. It omits deprecated bundles and downgrades.
func (c *chain) successors(current *facts, bundles map[string]*facts) []*facts {
	var out []*facts
	for _, name := range c.names {
		if name == current.name {
			break
		}
		e := c.channel.Entries[name]
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
	packages := x.packagesFor(m, r)
	if m.Spend(1+len(packages)) != nil {
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
	if size := remembered.add(x, r.key, hits{found, m.spent - before}); remembered == &m.searches {
		_ = m.charge(size) // the meter keeps the error
	}
	return found
}

// searchIn searches one package.
func (x *index) searchIn(m *meter, pkg string, r requirement) (hits []*operator) {
	for _, channel := range x.channels(m, pkg) {
		c := x.chainOf(pkg, channel)
		if m.Spend(len(c.installable)) != nil {
			return nil
		}
		var operators []operator
		for i, name := range c.installable {
			if f := x.bundles[pkg][name]; f != nil && !f.deprecated && r.match(m, f) {
				if operators == nil {
					operators = x.operatorsOf(m, c)
				}
				if m.err != nil {
					return nil
				}
				hits = append(hits, &operators[i])
			}
		}
	}
	return hits
}

// operatorsOf returns the shared operators for the installable versions of a chain, in the same order. Those of versions that the
// catalog does not contain have no facts. Callers must not modify them. Those of a tenant's catalog exist for one resolution: a tenant
// can have each version in as many channels as fit into its catalogs.
func (x *index) operatorsOf(m *meter, c *chain) []operator {
	from := x.originOf(c.channel.Name)
	if !x.isGlobal(m) {
		if m.operators[c] == nil && m.charge(int64(len(c.installable))*memoryOfOperator) == nil {
			m.operators[c] = x.newOperators(c, from)
		}
		return m.operators[c]
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if c.operators == nil {
		c.operators = x.newOperators(c, from)
	}
	return c.operators
}

func (x *index) newOperators(c *chain, from *origin) []operator {
	out := make([]operator, len(c.installable))
	for i, name := range c.installable {
		out[i] = operator{facts: x.bundles[c.pkg][name], origin: from}
	}
	return out
}

// originOf returns the origin of the versions in the channels of a name.
func (x *index) originOf(channel string) *origin {
	x.mu.Lock()
	defer x.mu.Unlock()
	from := x.origins[channel]
	if from == nil {
		from = newOrigin(x.key, x.text, channel)
		x.origins[channel] = from
	}
	return from
}

// newOperator returns an operator that the caller may modify.
func (x *index) newOperator(channel string, f *facts) *operator {
	return &operator{facts: f, origin: x.originOf(channel)}
}

func (x *index) anyMatches(m *meter, pkg string, r requirement) bool {
	for _, f := range x.ordered[pkg] {
		if m.Spend(1) != nil || r.match(m, f) {
			return m.err == nil
		}
	}
	return false
}

// packagesFor returns the packages that can meet a requirement, sorted. A requirement can name a kind, or kinds of the same packages,
// thousands of times.
func (x *index) packagesFor(m *meter, r requirement) []string {
	if len(r.pkgs)+len(r.apis) == 0 {
		return x.names
	}
	if m.Spend(len(r.pkgs)+len(r.apis)) != nil {
		return nil
	}
	seen := map[string]bool{}
	for _, p := range r.pkgs {
		if x.packages[p] != nil {
			seen[p] = true
		}
	}
	for _, a := range r.apis {
		if m.Spend(len(x.owners[a])) != nil {
			return nil
		}
		for _, p := range x.owners[a] {
			seen[p] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
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
