package resolver

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// inChannels adds a package with one bundle that is in many channels.
func inChannels(s *catalog.Snapshot, pkg string, channels int, properties []catalog.Property) {
	name := pkg + ".v1.0.0"
	p := &catalog.Package{
		Name: pkg, DefaultChannel: "c000000", Channels: map[string]*catalog.Channel{},
		Bundles: map[string]*catalog.Bundle{name: {Name: name, Package: pkg, Version: "1.0.0", Properties: properties}},
	}
	for i := range channels {
		c := fmt.Sprintf("c%06d", i)
		p.Channels[c] = &catalog.Channel{Name: c, Entries: map[string]catalog.Entry{name: {Name: name}}}
	}
	s.Packages[pkg] = p
}

// properties returns the result of many for one bundle.
func properties(kind string, n int, value string) []catalog.Property { return many(kind, n, value)(0) }

// invalid is a requirement that ends the reading of requirements, so that the properties after it cost no steps.
var invalid = []catalog.Property{{Type: "olm.gvk.required", Value: []byte(`1`)}}

// hostile contains small catalogs in each of which two numbers that their author chooses are multiplied: each of them took hundreds of
// MiB, or many times the steps that it was charged for.
var hostile = map[string]func() ([]*catalog.Snapshot, Namespace){
	"versions times kinds": func() ([]*catalog.Snapshot, Namespace) {
		var all []*catalog.Snapshot
		for i := 1; i <= 2; i++ {
			s := graph(fmt.Sprintf("ns/cat%d", i))
			if i == 1 {
				s = graph("ns/cat1", "a.v1.0.0 stable needs=b1:>=1.0.0 needs=b2:>=1.0.0")
			}
			inChannels(s, fmt.Sprint("b", i), 3_000, append(invalid, properties("olm.gvk", 3_000, `{"kind":"K%d"}`)...))
			all = append(all, s)
		}
		return all, subjects("s ns/cat1/a/stable")
	},
	"versions times kinds of one package": func() ([]*catalog.Snapshot, Namespace) {
		s := graph("ns/cat", "a.v1.0.0 stable needs=b:>=1.0.0 needs=none:>=1.0.0")
		inChannels(s, "b", 3_000, append(invalid, properties("olm.gvk", 4_000, `{"kind":"K%d"}`)...))
		return []*catalog.Snapshot{s}, subjects("s ns/cat/a/stable")
	},
	"versions times requirements": func() ([]*catalog.Snapshot, Namespace) {
		s := graph("ns/cat", "a.v1.0.0 stable needs=b:>=1.0.0 needs=b:>=2.0.0")
		inChannels(s, "b", 5_000, []catalog.Property{{Type: "olm.constraint", Value: []byte(`{"any":{"constraints":[` + strings.Repeat(`{"gvk":{"kind":"none"}},`, 1_500) + `{"gvk":{}}]}}`)}})
		return []*catalog.Snapshot{s}, subjects("s ns/cat/a/stable")
	},
	"required kinds times packages that own them": func() ([]*catalog.Snapshot, Namespace) {
		s := graph("ns/cat", "a.v1.0.0 stable")
		s.Packages["a"].Bundles["a.v1.0.0"].Properties = []catalog.Property{{Type: "olm.constraint", Value: []byte(`{"any":{"constraints":[` + strings.Repeat(`{"gvk":{"kind":"K0"}},`, 5_000) + `{"gvk":{}}]}}`)}}
		for i := range 3_000 {
			inChannels(s, fmt.Sprint("p", i), 1, properties("olm.gvk", 1, `{"kind":"K%d"}`))
		}
		return []*catalog.Snapshot{s}, subjects("s ns/cat/a/stable")
	},
	"Subscriptions times the text of a requirement": func() ([]*catalog.Snapshot, Namespace) {
		const rivals = 100
		lines, asked, members := []string{}, []string{"z ns/cat/z/stable"}, make([]string, 0, rivals)
		for i := range rivals {
			lines = append(lines, fmt.Sprintf("p%d.v1.0.0 stable owns=K%d", i, i), fmt.Sprintf("q%d.v1.0.0 stable owns=K%d", i, i))
			asked = append(asked, fmt.Sprintf("s%d ns/cat/p%d/stable", i, i))
			members = append(members, fmt.Sprintf(`{"package":{"packageName":"q%d","versionRange":">=1.0.0"}}`, i))
		}
		members = append(members, strings.TrimSuffix(strings.Repeat(`{"gvk":{}},`, 10_000), ","))
		s := graph("ns/cat", append(lines, "z.v1.0.0 stable")...)
		s.Packages["z"].Bundles["z.v1.0.0"].Properties = []catalog.Property{{Type: "olm.constraint", Value: []byte(`{"any":{"constraints":[` + strings.Join(members, ",") + `]}}`)}}
		return []*catalog.Snapshot{s}, subjects(asked...)
	},
	"Subscriptions times versions": func() ([]*catalog.Snapshot, Namespace) {
		s := graph("ns/cat", "b.v0.1.0 stable", "a.v1.0.0 stable needs=none:>=1.0.0")
		addBundles(s, 2_000, 1, none)
		asked := []string{"a ns/cat/a/stable"}
		for i := range 200 {
			asked = append(asked, fmt.Sprintf("s%d ns/cat/b/%s000000", i, strings.Repeat("c", 244)))
		}
		return []*catalog.Snapshot{s}, subjects(asked...)
	},
	"installed versions times versions": func() ([]*catalog.Snapshot, Namespace) {
		s := graph("ns/cat", "b.v0.1.0 stable", "a.v1.0.0 stable needs=b:>=0.1.0 needs=none:>=1.0.0")
		addBundles(s, 2_000, 1, none)
		ns := subjects("a ns/cat/a/stable", "b ns/cat/b/"+strings.Repeat("c", 244)+"000000")
		for i := range 200 {
			ns.Others = append(ns.Others, csvNamed(fmt.Sprintf("other%d.v1.0.0", i), catalog.Property{Type: "olm.package", Value: []byte(`{"packageName":"b","version":"1.0.0"}`)}))
		}
		return []*catalog.Snapshot{s}, ns
	},
}

// A resolution allocates little more than its limit, in a few seconds, whatever its catalogs contain. What counts is what it allocates
// in total, although most of it could be freed in between.
func TestSizesThatCatalogsMultiplyAreBounded(t *testing.T) {
	for name, make := range hostile {
		t.Run(name, func(t *testing.T) {
			catalogs, ns := make()
			var size int64
			for _, s := range catalogs {
				size += s.Size()
			}
			require.Less(t, size, int64(16<<20))
			in := world(catalogs...)
			limits := Light()
			limits.Time = time.Hour
			before, began := allocated(), time.Now()
			_, err := in.Resolve(t.Context(), limits, ns)
			took := allocated() - before
			t.Logf("%d MiB, %s: %v", took>>20, time.Since(began).Round(time.Millisecond), err)
			var exceeded *LimitError
			require.True(t, err == nil || errors.As(err, &exceeded))
			require.Less(t, took, 2*limits.Memory+3*size)
			runtime.KeepAlive(in)
		})
	}
}

// watching is a budget that measures the memory in use when the solver has all clauses.
type watching struct {
	*meter
	peak  int64
	times int
}

func (w *watching) Spend(cost int) error {
	const costOfStart = 100 // package sat
	if cost == costOfStart && w.times < 4 {
		w.times++
		w.peak = max(w.peak, live())
	}
	return w.meter.Spend(cost)
}

// What is counted for each part of a problem is at least what it takes, also while the problem is solved and a clash is explained.
func TestMemoryOfProblemsIsWhatTheyTake(t *testing.T) {
	const missing = "a.v1.0.0 stable needs=b:>=0.0.1 needs=none:>=1.0.0"
	for name, make := range map[string]func() (*catalog.Snapshot, Namespace){
		"channels of one version": func() (*catalog.Snapshot, Namespace) {
			s := graph("ns/cat", missing)
			inChannels(s, "b", 49_000, nil)
			return s, subjects("s ns/cat/a/stable")
		},
		"needs": func() (*catalog.Snapshot, Namespace) {
			s := graph("ns/cat", missing)
			inChannels(s, "b", 1_000, properties("olm.package.required", 50, `{"packageName":"%d","versionRange":">=0.0.1"}`))
			return s, subjects("s ns/cat/a/stable")
		},
		"owners": func() (*catalog.Snapshot, Namespace) {
			s := graph("ns/cat", missing+" needs=c:>=0.0.1")
			inChannels(s, "b", 500, properties("olm.gvk", 50, `{"kind":"K%d"}`))
			inChannels(s, "c", 500, properties("olm.gvk", 50, `{"kind":"K%d"}`))
			return s, subjects("s ns/cat/a/stable")
		},
		"kinds": func() (*catalog.Snapshot, Namespace) {
			s := graph("ns/cat", missing+" needs=c:>=0.0.1", "b.v0.1.0 stable")
			addBundles(s, 1_000, 1, many("olm.gvk", 50, `{"kind":"%d"}`))
			return s, subjects("s ns/cat/a/stable")
		},
		"installed versions of one package": func() (*catalog.Snapshot, Namespace) {
			s := graph("ns/cat", missing)
			inChannels(s, "b", 500, nil)
			ns := subjects("s ns/cat/a/stable")
			for i := range 50 {
				ns.Others = append(ns.Others, csvNamed(fmt.Sprintf("other%d.v1.0.0", i), catalog.Property{Type: "olm.package", Value: []byte(`{"packageName":"b","version":"1.0.0"}`)}))
			}
			return s, ns
		},
		"candidates of Subscriptions": func() (*catalog.Snapshot, Namespace) {
			s := graph("ns/cat", missing, "b.v0.1.0 stable")
			addBundles(s, 1_000, 1, none)
			asked := []string{"s ns/cat/a/stable"}
			for i := range 100 {
				asked = append(asked, fmt.Sprintf("s%d ns/cat/b/%s000000", i, strings.Repeat("c", 244)))
			}
			return s, subjects(asked...)
		},
		"successors": func() (*catalog.Snapshot, Namespace) {
			s := graph("ns/cat", missing, "b.v0.1.0 stable")
			addBundles(s, 1_000, 1, none)
			channel := s.Packages["b"].Channels[strings.Repeat("c", 244)+"000000"]
			for name, e := range channel.Entries {
				e.Skips = []string{"b.v0.0.1"}
				channel.Entries[name] = e
			}
			asked := []string{"s ns/cat/a/stable"}
			for i := range 100 {
				asked = append(asked, fmt.Sprintf("s%d ns/cat/b/%s000000 installed=b.v0.0.1", i, strings.Repeat("c", 244)))
			}
			return s, subjects(asked...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, ns := make()
			in := world(s)
			d := newDecision(t.Context(), in, Namespace{})
			d.meter.limits = Limits{Cost: 1 << 60, Time: time.Hour}
			before := live()
			d.subjects = ns.Subjects
			d.readOthers(ns.Others)
			d.findRoots()
			p, err := d.build()
			require.NoError(t, err)
			budget := &watching{meter: d.meter}
			_, err = p.sat.Solve(budget)
			require.Error(t, err)
			require.GreaterOrEqual(t, budget.times, 3)
			used := budget.peak - before
			t.Logf("%d versions, %d candidates: counted %d KiB, used %d KiB (%.2f)", len(p.order), p.candidates, d.meter.memory>>10, used>>10, float64(used)/float64(d.meter.memory))
			require.LessOrEqual(t, used, d.meter.memory)
			require.Less(t, d.meter.memory, 4*used, "benign namespaces are not charged much more")
			runtime.KeepAlive(p)
			runtime.KeepAlive(in)
		})
	}
}

// problemOf returns the problem that the solver gets.
func problemOf(t *testing.T, in Input, ns Namespace) (*decision, *problem) {
	t.Helper()
	d := newDecision(t.Context(), in, ns)
	d.findRoots()
	p, err := d.build()
	require.NoError(t, err)
	return d, p
}

func TestOnlyKindsOfSeveralPackagesAreRules(t *testing.T) {
	_, p := problemOf(t, world(graph("ns/cat", "a.v1.0.0 stable,fast owns=K owns=L", "a.v2.0.0 stable replaces=a.v1.0.0 owns=K", "b.v1.0.0 stable owns=L")),
		subjects("s ns/cat/a/stable", "t ns/cat/b/stable"))
	var kinds []string
	for _, c := range p.sat.Global {
		if n := c.Note.(*note); n.api != nil {
			kinds = append(kinds, n.api.Kind)
		}
	}
	require.Equal(t, []string{"L"}, kinds)
}

// The ClusterServiceVersion of such a bundle would be refused.
func TestBundlesWithTooManyKindsAreNotInstalled(t *testing.T) {
	s := graph("ns/cat", "a.v1.0.0 stable")
	for extra, want := range []int{0, 1} {
		s.Packages["a"].Bundles["a.v1.0.0"].Properties = properties("olm.gvk", MaxKinds+extra, `{"kind":"K%d"}`)
		got := world(s).resolve(subjects("s ns/cat/a/stable"))
		require.Len(t, got.Problems, want)
		if want > 0 {
			require.Contains(t, got.Problems["s"].Message, "invalid dependency: the bundle owns more than 4000 kinds")
		}
	}
}

func TestPackagesOfRequiredKindsAreListedOnce(t *testing.T) {
	s := graph("ns/cat", "a.v1.0.0 stable owns=K", "b.v1.0.0 stable owns=K")
	in := world(s)
	m := newMeter(t.Context(), in, Full())
	x := in.Indexes.get(m, s)
	before := m.spent
	kinds := make([]api, 1_000)
	for i := range kinds {
		kinds[i] = api{"x", "v1", "K"}
	}
	require.Equal(t, []string{"a", "b"}, x.packagesFor(m, requirement{apis: kinds}))
	require.GreaterOrEqual(t, m.spent-before, 3_000)
}

// Each channel of a bundle has a version with the same requirements, which are counted once.
func TestRequirementsAreParsedOncePerResolution(t *testing.T) {
	f := &facts{properties: properties("olm.package.required", maxKept+1, `{"packageName":"%d","versionRange":">=1.0.0"}`)}
	m := newMeter(t.Context(), world(), Full())
	var cost []int
	var all [][]requirement
	for range 2 {
		before := m.spent
		read, err := f.requirements(m)
		require.NoError(t, err)
		cost, all = append(cost, m.spent-before), append(all, read)
	}
	require.Same(t, &all[0][0], &all[1][0])
	require.Equal(t, cost[0], cost[1])
}

func TestTextsOfRequirementsAreBounded(t *testing.T) {
	p := propertyOf("constraint", `{"any":{"constraints":[`+strings.Repeat(`{"gvk":{}},`, 10_000)+`{"gvk":{}}]}}`)
	all, err := requirementsOf(newMeter(t.Context(), world(), Full()), []catalog.Property{p})
	require.NoError(t, err)
	require.Less(t, len(all[0].text), maxMessage+100)
}

func TestSearchesCountAsMemory(t *testing.T) {
	s := graph("ns/cat", "a.v1.0.0 stable,fast")
	in := world(s)
	m := newMeter(t.Context(), in, Full())
	x := in.Indexes.get(m, s)
	before := m.memory
	for i := range 1_000 {
		x.search(m, requirement{key: fmt.Sprint(i), match: func(*meter, *facts) bool { return true }})
	}
	require.GreaterOrEqual(t, m.memory-before, int64(1_000*(memoryOfSearch+2*memoryOfHit)))
	large := &searches{}
	require.Zero(t, large.add(x, "k", hits{operators: make([]*operator, maxRemembered)}))
	require.Empty(t, large.all)
}

// The problem that a solution refers to exists until the last upgrade that is held back has been explained.
func TestExplanationsCountWithTheSolution(t *testing.T) {
	in := world(graph("ns/cat", "a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0 needs=b:>=1.0.0"))
	d, p := problemOf(t, in, subjects("s ns/cat/a/c installed=a.v1.0.0"))
	before, held := d.meter.ofProblems, d.roots[0]
	require.Positive(t, before)
	require.NotEmpty(t, d.causes(held, held.candidates[0], nil))
	require.Equal(t, before, d.meter.ofProblems)
	require.NotNil(t, p)
}
