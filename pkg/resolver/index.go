package resolver

import (
	"fmt"
	"slices"
	"sync"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/resolver/sat"
)

// Indexes keep, for each catalog, what is looked up in it, for as long as its content is the same. The zero
// value is ready to use.
type Indexes struct {
	mu sync.Mutex
	of map[types.NamespacedName]*index
}

// get returns the index of a Snapshot, made at most once for a content.
func (x *Indexes) get(s *catalog.Snapshot) *index {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[types.NamespacedName]*index{}
	}
	old := x.of[s.Key]
	if old == nil || old.digest != s.Digest || old.digest == "" {
		old = newIndex(s)
		x.of[s.Key] = old
	}
	return old
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
	owners   map[api][]string // packages with a bundle that owns it, sorted

	mu     sync.Mutex
	chains map[[2]string]*chain
	hits   map[string][]*operator
	held   int // answers, and versions in them
}

func newIndex(s *catalog.Snapshot) *index {
	x := &index{
		key: s.Key, digest: s.Digest, packages: s.Packages, names: s.PackageNames(),
		bundles: make(map[string]map[string]*facts, len(s.Packages)), owners: map[api][]string{},
		chains: map[[2]string]*chain{}, hits: map[string][]*operator{},
	}
	for _, name := range x.names {
		p := s.Packages[name]
		all := make(map[string]*facts, len(p.Bundles))
		for _, b := range p.Bundles {
			f := factsOf(b)
			all[b.Name] = f
			for _, a := range f.apis {
				if owners := x.owners[a]; len(owners) == 0 || owners[len(owners)-1] != name {
					x.owners[a] = append(owners, name)
				}
			}
		}
		x.bundles[name] = all
	}
	return x
}

// chain is a channel from its head down along replaces. Entries that are not on it are skipped by one that is,
// and never installed.
type chain struct {
	entries []catalog.Entry
	err     error
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
	}
	return out
}

// fresh are the versions that may be installed where there is none: the newest first, and none that
// another one says to skip.
func (c *chain) fresh() []string {
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

// maxRemembered bounds the answers that an index keeps, with the versions in them.
const maxRemembered = 200_000

// search finds what may match a requirement: package by package, in each the default channel first, then the
// others by name, in each the newest first.
func (x *index) search(r requirement) []*operator {
	x.mu.Lock()
	hits, ok := x.hits[r.key]
	x.mu.Unlock()
	if ok {
		return hits
	}
	for _, pkg := range x.packagesFor(r) {
		if !x.anyMatches(pkg, r) {
			continue
		}
		for _, channel := range x.channels(pkg) {
			for _, name := range x.chainOf(pkg, channel).fresh() {
				if f := x.bundles[pkg][name]; f != nil && !f.deprecated && r.match(f) {
					hits = append(hits, x.operator(channel, f))
				}
			}
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.held += 1 + len(hits); x.held > maxRemembered {
		clear(x.hits)
		x.held = 1 + len(hits)
	}
	x.hits[r.key] = hits
	return hits
}

// operator is a version by the channel that it is taken from.
func (x *index) operator(channel string, f *facts) *operator {
	return &operator{
		facts: f, catalog: x.key, channel: channel,
		id: sat.ID(x.key.Name + "/" + x.key.Namespace + "/" + channel + "/" + f.name),
	}
}

func (x *index) anyMatches(pkg string, r requirement) bool {
	for _, f := range x.bundles[pkg] {
		if r.match(f) {
			return true
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

func (x *index) channels(pkg string) []string {
	p := x.packages[pkg]
	out := make([]string, 0, len(p.Channels))
	if p.Channels[p.DefaultChannel] != nil {
		out = append(out, p.DefaultChannel)
	}
	for _, name := range p.ChannelNames() {
		if name != p.DefaultChannel {
			out = append(out, name)
		}
	}
	return out
}
