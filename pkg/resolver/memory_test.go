package resolver

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// live returns the memory that is in use.
func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// large is a catalog of package "a", which requires "b", and of what is added to it. As in a decoded catalog, no text is
// shared.
func large(add func(s *catalog.Snapshot)) *catalog.Snapshot {
	s := graph("ns/cat", "a.v1.0.0 stable needs=b:>=1.1.0", "b.v1.0.0 stable")
	add(s)
	s.Digest = "sha256:1"
	return s
}

// addBundles adds n bundles to package "b". The same versions are in each of the channels.
func addBundles(s *catalog.Snapshot, n, channels int, properties func(i int) []catalog.Property) {
	p := s.Packages["b"]
	name := func(i int) string { return fmt.Sprint("b", i) }
	for i := range n {
		p.Bundles[name(i)] = &catalog.Bundle{Name: name(i), Package: "b", Version: fmt.Sprintf("1.%d.0", i+1), Properties: properties(i)}
	}
	for c := range channels {
		channel := &catalog.Channel{Name: fmt.Sprintf("%s%06d", strings.Repeat("c", 244), c), Entries: map[string]catalog.Entry{}}
		for i := range n {
			e := catalog.Entry{Name: name(i)}
			if i > 0 {
				e.Replaces = name(i - 1)
			}
			channel.Entries[e.Name] = e
		}
		p.Channels[channel.Name] = channel
	}
}

func none(int) []catalog.Property { return nil }

// many returns n properties for each bundle.
func many(kind string, n int, value string) func(int) []catalog.Property {
	return func(bundle int) (out []catalog.Property) {
		for i := range n {
			out = append(out, catalog.Property{Type: strings.Clone(kind), Value: fmt.Appendf(nil, value, bundle*n+i)})
		}
		return out
	}
}

var largeCatalogs = map[string]func(s *catalog.Snapshot){
	"channels of the same versions": func(s *catalog.Snapshot) { addBundles(s, 500, 90, none) },
	"channels of one version":       func(s *catalog.Snapshot) { addBundles(s, 1, 20_000, none) },
	"channels of nine versions":     func(s *catalog.Snapshot) { addBundles(s, 9, 4_000, none) },
	"packages": func(s *catalog.Snapshot) {
		for i := range 10_000 {
			name := fmt.Sprint("p", i)
			s.Packages[name] = &catalog.Package{
				Name: name, DefaultChannel: "x", Bundles: map[string]*catalog.Bundle{name: {Name: name, Package: name, Version: "1.0.0", Properties: many("olm.label", 1, `{"label":"%d"}`)(i)}},
				Channels: map[string]*catalog.Channel{"x": {Name: "x", Entries: map[string]catalog.Entry{name: {Name: name}}}},
			}
		}
	},
	"kinds": func(s *catalog.Snapshot) { addBundles(s, 1_000, 1, many("olm.gvk", 50, `{"kind":"%d"}`)) },
	"packages that are required": func(s *catalog.Snapshot) {
		addBundles(s, 1_000, 1, many("olm.package.required", 50, `{"packageName":"%d","versionRange":">0"}`))
	},
	"kinds that are required": func(s *catalog.Snapshot) { addBundles(s, 1_000, 1, many("olm.gvk.required", 5, `{"kind":"%d"}`)) },
	"constraints": func(s *catalog.Snapshot) {
		member := `{"gvk":{}},`
		addBundles(s, 100, 1, many("olm.constraint", 1, `{"any":{"constraints":[`+strings.Repeat(member, 1_200)+`{"gvk":{"kind":"%d"}}]}}`))
	},
	"versions": func(s *catalog.Snapshot) {
		addBundles(s, 5_000, 1, none)
		for i := range 5_000 {
			s.Packages["b"].Bundles[fmt.Sprint("b", i)].Version = fmt.Sprintf("1.0.%d%s", i, "-a"+strings.Repeat(".a", 120))
		}
	},
}

// What a catalog of a tenant keeps, with its index and after a resolution, is not much more than its size.
func TestASnapshotIsChargedForItsIndex(t *testing.T) {
	for name, add := range largeCatalogs {
		t.Run(name, func(t *testing.T) {
			before := live()
			s := large(add)
			alone := live() - before
			in := world(s)
			_, err := in.Resolve(t.Context(), Full(), subjects("s ns/cat/a/stable"))
			require.NoError(t, err)
			kept := live() - before
			t.Logf("charged %d KiB, the snapshot has %d KiB (%.2f), with its index %d KiB (%.2f)",
				s.Size()>>10, alone>>10, float64(alone)/float64(s.Size()), kept>>10, float64(kept)/float64(s.Size()))
			require.LessOrEqual(t, float64(kept), 1.15*float64(s.Size()))
			require.GreaterOrEqual(t, float64(kept), 0.4*float64(s.Size()))
			runtime.KeepAlive(s)
			runtime.KeepAlive(in)
		})
	}
}

// Compiled rules are kept for all namespaces, and a tenant can write rules that take a hundred times as much as their text.
func TestFewCompiledRulesAreKept(t *testing.T) {
	var kept programs
	for i := range maxKeptPrograms + 10 {
		_, err := kept.get(fmt.Sprintf("%d>0", i))
		require.NoError(t, err)
	}
	require.Equal(t, 64, kept.kept.Len())
}

// The requirements of a resolution have a limit in memory: their text is read with few steps, and takes thirty times as much when it is
// parsed.
func TestTheRequirementsOfAResolutionHaveALimitInMemory(t *testing.T) {
	member := strings.Repeat(`{"gvk":{}},`, 11_000)
	s := graph("ns/cat", "a.v1.0.0 stable needs=b:>=1.0.0", "b.v1.0.0 stable")
	b := s.Packages["b"].Bundles["b.v1.0.0"]
	for i := range 100 {
		b.Properties = append(b.Properties, catalog.Property{Type: "olm.constraint", Value: fmt.Appendf(nil, `{"any":{"constraints":[%s{"gvk":{"kind":"%d"}}]}}`, member, i)})
	}
	require.Less(t, s.Size(), int64(16<<20))
	in := world(s)
	for name, limits := range map[string]Limits{"light": Light(), "full": Full()} {
		ctx, before := t.Context(), allocated()
		_, err := in.Resolve(ctx, limits, subjects("s ns/cat/a/stable"))
		require.Less(t, allocated()-before, int64(32<<20), "nothing is parsed")
		var exceeded *LimitError
		require.ErrorAs(t, err, &exceeded, name)
		require.ErrorContains(t, err, fmt.Sprintf("was stopped after %d MiB of memory", limits.Memory>>20))
		require.Equal(t, "package b of catalogsource ns/cat", exceeded.Most[0])
	}
	b.Properties = b.Properties[:4]
	_, err := world(s).Resolve(t.Context(), Light(), subjects("s ns/cat/a/stable"))
	require.NoError(t, err)
}

// What is counted for requirements is at least what they take.
func TestMemoryOfNeedsIsWhatTheyTake(t *testing.T) {
	for name, p := range map[string]catalog.Property{
		"kinds":    propertyOf("api", "K"),
		"packages": propertyOf("needs", "b:>=1.0.0"),
		"labels":   propertyOf("wants", "x"),
		"any":      propertyOf("constraint", `{"any":{"constraints":[`+strings.Repeat(`{"gvk":{}},`, 11_000)+`{"gvk":{}}]}}`),
		"not":      propertyOf("constraint", `{"not":{"constraints":[`+strings.Repeat(`{"not":{"constraints":[{"gvk":{}}]}},`, 3_000)+`{"gvk":{}}]}}`),
	} {
		f := &facts{}
		for range 300 / (1 + len(p.Value)>>10) {
			f.properties = append(f.properties, p)
		}
		before, m := live(), newMeter(t.Context(), world(), Limits{Cost: Full().Cost, Time: Full().Time})
		all, err := f.requirements(m)
		require.NoError(t, err)
		require.LessOrEqual(t, live()-before, m.memory+64<<10, name)
		runtime.KeepAlive(all)
		runtime.KeepAlive(m)
	}
}

// A tenant can have each version in as many channels as fit into its catalogs, and requirements search all of them.
func TestVersionsOfChannelsCountTowardTheMemoryOfAResolution(t *testing.T) {
	s := graph("ns/cat", "a.v1.0.0 stable needs=b:>=1.0.0", "b.v1.0.0 stable")
	addBundles(s, 1_000, 20, none)
	in := world(s)
	limits := Full()
	_, err := in.Resolve(t.Context(), limits, subjects("s ns/cat/a/stable"))
	require.NoError(t, err)
	limits.Memory = 20*1_000*memoryOfOperator + 20*1_000*memoryOfCandidate - 1
	_, err = world(s).Resolve(t.Context(), limits, subjects("s ns/cat/a/stable"))
	var exceeded *LimitError
	require.ErrorAs(t, err, &exceeded)
	require.True(t, exceeded.Large)
	limits.Memory = 2 * limits.Memory
	_, err = world(s).Resolve(t.Context(), limits, subjects("s ns/cat/a/stable"))
	require.NoError(t, err)
}

// allocated returns the memory that was allocated so far.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// What is counted for candidates and versions is at least what they take, also while the problem is solved. The candidates of a problem
// that is built again are not counted twice.
func TestMemoryOfCandidatesIsWhatTheyTake(t *testing.T) {
	s := graph("ns/cat", "a.v1.0.0 stable needs=b:>=1.0.0", "b.v0.1.0 stable")
	addBundles(s, 300, 1, many("olm.package.required", 1, `{"packageName":"d","versionRange":">=1.0.%d"}`))
	required := &catalog.Package{Name: "d", DefaultChannel: "x", Bundles: map[string]*catalog.Bundle{}, Channels: map[string]*catalog.Channel{"x": {Name: "x", Entries: map[string]catalog.Entry{}}}}
	for i := range 1_000 {
		e := catalog.Entry{Name: fmt.Sprint("d", i)}
		if i > 0 {
			e.Replaces = fmt.Sprint("d", i-1)
		}
		required.Channels["x"].Entries[e.Name] = e
		required.Bundles[e.Name] = &catalog.Bundle{Name: e.Name, Package: "d", Version: fmt.Sprintf("1.%d.0", i+1)}
	}
	s.Packages["d"] = required
	in := world(s)
	ns := subjects("s ns/cat/a/stable")
	d := &decision{in: in, answer: newAnswer(), meter: newMeter(t.Context(), in, Full()), subjects: ns.Subjects}
	d.openCatalogs()
	d.findRoots()
	before, counted := live(), d.meter.memory
	p, err := d.build()
	require.NoError(t, err)
	once := d.meter.memory - d.meter.searches.size
	used, allocatedBefore := live()-before, allocated()
	_, err = p.sat.Solve(d.meter)
	require.NoError(t, err)
	used += allocated() - allocatedBefore // what the solver allocates is not less than what it needs at a time
	t.Logf("%d candidates: counted %d KiB, used at most %d KiB", p.candidates, (once-counted)>>10, used>>10)
	require.Greater(t, p.candidates, 250_000)
	require.LessOrEqual(t, used, once-counted)
	runtime.KeepAlive(p)
	d.meter.release(0)
	_, err = d.build()
	require.NoError(t, err)
	require.Equal(t, once, d.meter.memory-d.meter.searches.size)
}
