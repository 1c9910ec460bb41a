package resolver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// version is a bundle for the brute-force solver. This solver shares no code with the resolver. Both parse the same
// graph text.
type version struct {
	name, pkg string
	number    int
	channels  []string
	replaces  string
	owns      []string
	needs     []want
	deprecated,
	installed bool
}

// want is a requirement for a package with a minimum version, or for a kind.
type want struct {
	pkg   string
	least int
	kind  string
}

func (w want) metBy(v *version) bool {
	if w.kind != "" {
		return slices.Contains(v.owns, w.kind)
	}
	return v.pkg == w.pkg && v.number >= w.least
}

// brute is a randomly generated namespace, with catalogs in order of preference and Subscriptions sorted by name.
type brute struct {
	catalogs [][]*version
	subs     []bruteSub
}

type bruteSub struct {
	name, pkg, channel string
	catalog            int
	installed          string
}

// pick is a version with the channel and the catalog that it comes from. catalog is -1 for an installed version.
type pick struct {
	*version
	catalog int
	channel string
}

func (p pick) same(q pick) bool {
	return p.name == q.name && p.catalog == q.catalog && p.channel == q.channel
}

func random(r *rand.Rand) brute {
	var b brute
	packages := 1 + r.IntN(50)
	kinds := []string{"K0", "K1", "K2", "K3", "K4", "K5"}
	for c := range 1 + r.IntN(2) {
		var all []*version
		for i := range packages {
			pkg := fmt.Sprintf("p%02d", i)
			if c > 0 && r.IntN(3) > 0 {
				continue
			}
			all = append(all, randomPackage(r, pkg, packages, kinds)...)
		}
		b.catalogs = append(b.catalogs, all)
	}
	for i := range 1 + r.IntN(4) {
		v := b.catalogs[0][r.IntN(len(b.catalogs[0]))]
		s := bruteSub{name: fmt.Sprintf("s%d", i), pkg: v.pkg, channel: v.channels[r.IntN(len(v.channels))]}
		if slices.ContainsFunc(b.subs, func(o bruteSub) bool { return o.pkg == s.pkg }) {
			continue
		}
		if r.IntN(3) == 0 {
			s.installed = v.name
		}
		b.subs = append(b.subs, s)
	}
	return b
}

func randomPackage(r *rand.Rand, pkg string, packages int, kinds []string) []*version {
	var all []*version
	for n := range 1 + r.IntN(3) {
		v := &version{name: fmt.Sprintf("%s.v%d.0.0", pkg, n+1), pkg: pkg, number: n + 1, channels: []string{"stable"}, deprecated: r.IntN(20) == 0}
		if n > 0 {
			v.replaces = all[n-1].name
		}
		if n == 0 && r.IntN(4) == 0 {
			v.channels = append(v.channels, "beta")
		}
		if r.IntN(4) == 0 {
			v.owns = append(v.owns, kinds[r.IntN(len(kinds))])
		}
		for range r.IntN(3) {
			switch r.IntN(4) {
			case 0:
				v.needs = append(v.needs, want{kind: kinds[r.IntN(len(kinds))]})
			case 1, 2:
				v.needs = append(v.needs, want{pkg: fmt.Sprintf("p%02d", r.IntN(packages)), least: 1 + r.IntN(3)})
			}
		}
		all = append(all, v)
	}
	return all
}

func (b brute) catalog(i int) string { return fmt.Sprintf("c%d", i) }

func (b brute) namespace() (Input, Namespace) {
	var snapshots []*catalog.Snapshot
	for i, all := range b.catalogs {
		var lines []string
		for _, v := range all {
			line := fmt.Sprintf("%s %s", v.name, strings.Join(v.channels, ","))
			if v.replaces != "" {
				line += " replaces=" + v.replaces
			}
			for _, k := range v.owns {
				line += " owns=" + k
			}
			for _, w := range v.needs {
				if w.kind != "" {
					line += " api=" + w.kind
				} else {
					line += fmt.Sprintf(" needs=%s:>=%d.0.0", w.pkg, w.least)
				}
			}
			if v.deprecated {
				line += " deprecated"
			}
			lines = append(lines, line)
		}
		snapshots = append(snapshots, graph("ns/"+b.catalog(i), lines...))
	}
	var ns Namespace
	for _, s := range b.subs {
		text := fmt.Sprintf("%s ns/%s/%s/%s", s.name, b.catalog(s.catalog), s.pkg, s.channel)
		if s.installed != "" {
			text += " installed=" + s.installed
		}
		ns.Subjects = append(ns.Subjects, parseSubject(text))
	}
	return world(snapshots...), ns
}

// channel lists the versions of a channel, newest first.
func (b brute) channel(c int, pkg, channel string) []pick {
	var out []pick
	for _, v := range b.catalogs[c] {
		if v.pkg == pkg && slices.Contains(v.channels, channel) {
			out = append(out, pick{v, c, channel})
		}
	}
	slices.Reverse(out)
	return out
}

func (b brute) installed(s bruteSub) pick {
	for _, v := range b.catalogs[s.catalog] {
		if v.name == s.installed {
			there := *v
			there.installed = true
			return pick{&there, -1, ""}
		}
	}
	panic(s.installed)
}

// options lists the versions that satisfy a Subscription, best first.
func (b brute) options(s bruteSub) []pick {
	var out []pick
	all := b.channel(s.catalog, s.pkg, s.channel)
	for _, p := range all {
		if !p.deprecated && (s.installed == "" || p.replaces == s.installed) {
			out = append(out, p)
		}
	}
	if s.installed != "" {
		out = append(out, b.installed(s))
	}
	return out
}

// servers lists the versions that satisfy one of p's wants: installed ones first, then the others sorted by catalog,
// package, channel and age.
func (b brute) servers(p pick, w want, there []pick) []pick {
	var out []pick
	for _, i := range there {
		if i.name != p.name && w.metBy(i.version) {
			out = append(out, i)
		}
	}
	order := []int{}
	if p.catalog >= 0 {
		order = append(order, p.catalog)
	} else {
		order = append(order, 0)
	}
	for c := range b.catalogs {
		if !slices.Contains(order, c) {
			order = append(order, c)
		}
	}
	for _, c := range order {
		for _, q := range b.offered(c) {
			if w.metBy(q.version) && q.name != p.name {
				out = append(out, q)
			}
		}
	}
	return out
}

// offered lists a catalog's versions, sorted by package, channel and age.
func (b brute) offered(c int) (out []pick) {
	var pkgs []string
	for _, v := range b.catalogs[c] {
		pkgs = append(pkgs, v.pkg)
	}
	slices.Sort(pkgs)
	for _, pkg := range slices.Compact(pkgs) {
		for _, channel := range []string{"stable", "beta"} {
			for _, q := range b.channel(c, pkg, channel) {
				if !q.deprecated {
					out = append(out, q)
				}
			}
		}
	}
	return out
}

// fits reports whether a version can coexist with others.
func fits(p pick, others []pick) bool {
	return !slices.ContainsFunc(others, func(q pick) bool {
		switch {
		case p.same(q) || p.installed && q.installed:
			return false
		case p.pkg == q.pkg:
			return true
		}
		return slices.ContainsFunc(p.owns, func(k string) bool { return slices.Contains(q.owns, k) })
	})
}

// search is the state of the brute-force search: the versions chosen so far and the requirements still to be met, in
// order.
type search struct {
	b     brute
	there []pick
	// steps is the number of steps after which the search gives up.
	steps int
	known map[string][]pick
}

type open []pick

// wants lists the requirements that a version adds, without those that it meets itself. For an installed version, these
// are only the requirements that other installed versions already meet.
func (s *search) wants(p pick) []open {
	var out []open
	for _, w := range p.needs {
		if w.metBy(p.version) {
			continue
		}
		if p.installed && !slices.ContainsFunc(s.there, func(i pick) bool { return i.name != p.name && w.metBy(i.version) }) {
			continue
		}
		key := fmt.Sprint(p.catalog, p.name, w)
		if s.known[key] == nil {
			s.known[key] = s.b.servers(p, w, s.there)
		}
		out = append(out, s.known[key])
	}
	return out
}

// complete reports whether all open requirements can be met together with the versions chosen so far.
func (s *search) complete(taken []pick, todo []open) bool {
	if s.steps--; s.steps < 0 {
		return false
	}
	if len(todo) == 0 {
		return true
	}
	if slices.ContainsFunc(todo[0], func(p pick) bool { return slices.ContainsFunc(taken, p.same) }) {
		return s.complete(taken, todo[1:])
	}
	for _, p := range todo[0] {
		if fits(p, taken) && s.complete(append(slices.Clip(taken), p), append(slices.Clip(todo[1:]), s.wants(p)...)) {
			return true
		}
	}
	return false
}

// best meets the open requirements in order, choosing for each the first version that leaves a solution for the rest.
func (s *search) best(todo []open) ([]pick, bool) {
	var taken []pick
	if !s.complete(nil, todo) {
		return nil, false
	}
	for ; len(todo) > 0; todo = todo[1:] {
		if slices.ContainsFunc(todo[0], func(p pick) bool { return slices.ContainsFunc(taken, p.same) }) {
			continue
		}
		i := slices.IndexFunc(todo[0], func(p pick) bool {
			return fits(p, taken) && s.complete(append(slices.Clip(taken), p), append(slices.Clip(todo[1:]), s.wants(p)...))
		})
		if i < 0 {
			return nil, false
		}
		p := todo[0][i]
		taken = append(taken, p)
		todo = append(slices.Clip(todo), s.wants(p)...)
	}
	return taken, true
}

// solve computes the answer for all Subscriptions at once. ok is false if there is none, and decided is false if the
// number of steps exceeded the limit.
func (b brute) solve() (names []string, ok, decided bool) {
	s := &search{b: b, steps: 200_000, known: map[string][]pick{}}
	var todo []open
	for _, sub := range b.subs {
		if sub.installed != "" {
			s.there = append(s.there, b.installed(sub))
		}
		todo = append(todo, b.options(sub))
	}
	taken, ok := s.best(todo)
	for _, p := range taken {
		if !p.installed {
			names = append(names, fmt.Sprintf("%s %d %s", p.name, p.catalog, p.channel))
		}
	}
	slices.Sort(names)
	return names, ok, s.steps >= 0
}

// bySolver returns the solver's answer, even if nothing clashes and Resolve would not need the solver.
func bySolver(t *testing.T, in Input, ns Namespace) (names []string) {
	t.Helper()
	d := &decision{in: in, answer: newAnswer(), meter: newMeter(t.Context(), in, Full()), subjects: ns.Subjects}
	d.openCatalogs()
	d.findRoots()
	p, err := d.build()
	require.NoError(t, err)
	taken, err := p.sat.Solve(p.meter)
	require.NoError(t, err)
	for _, id := range taken {
		if o := p.operators[id]; o != nil && !o.inPlace() {
			names = append(names, fmt.Sprintf("%s %s %s", o.name, strings.TrimPrefix(o.catalog.Name, "c"), o.channel))
		}
	}
	slices.Sort(names)
	return names
}

// The resolver and the independent brute-force solver agree on what can be satisfied and on the preferred solution.
func TestAgreesWithBruteForce(t *testing.T) {
	const cases = 10_000
	sat, unsat, undecided, changes := 0, 0, 0, 0
	for seed := range uint64(cases) {
		b := random(rand.New(rand.NewPCG(seed, 5)))
		want, ok, decided := b.solve()
		if !decided {
			undecided++
			continue
		}
		in, ns := b.namespace()
		got := in.resolve(ns)
		require.Equal(t, ok, len(got.Problems) == 0, "seed %d: %v", seed, got.Problems)
		if !ok {
			unsat++
			continue
		}
		sat++
		var names []string
		for _, set := range got.Sets {
			for _, c := range set {
				names = append(names, fmt.Sprintf("%s %s %s", c.Bundle, strings.TrimPrefix(c.Catalog.Name, "c"), c.Channel))
			}
		}
		slices.Sort(names)
		changes += len(names)
		require.Equal(t, want, names, "seed %d", seed)
		require.Equal(t, want, bySolver(t, in, ns), "seed %d: the solver", seed)
	}
	t.Logf("%d satisfiable with %d changes, %d not satisfiable, %d too large for brute force", sat, changes, unsat, undecided)
	require.Greater(t, sat, cases/4)
	require.Greater(t, unsat, cases/10)
	require.Less(t, undecided, cases/100)
}
