package resolver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/catalog"
)

// story contains rows of events in a namespace. The rows are interleaved at random, and the events of each row stay in
// order. The result does not depend on how the rows are interleaved. Events:
//
//	publish <catalog> <release>; <release>; …    replaces the content of a catalog
//	ask <Subscription, see parseSubject>         creates or changes a Subscription
//	fail <Subscription>, recover <Subscription>     its installed version fails, or recovers
//	forward                                      failed versions may be replaced from now on
//
// In the result, "held" means that the installed version is not replaced although the channel has a replacement.
type story struct {
	name string
	rows [][]string
	want []string
}

var stories = []story{
	{"replaces", [][]string{{"publish ns/c a.v1.0.0 s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0; a.v3.0.0 s replaces=a.v2.0.0"},
		{"ask s ns/c/a/s"}}, []string{"s a.v3.0.0"}},
	{"skips", [][]string{{"publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0; a.v3.0.0 s replaces=a.v1.0.0 skips=a.v2.0.0"},
		{"ask s ns/c/a/s"}}, []string{"s a.v3.0.0"}},
	{"skipRange", [][]string{{"publish ns/c a.v1.0.0 s", "publish ns/c a.v5.0.0 s range=>=1.0.0"}, {"ask s ns/c/a/s"}}, []string{"s a.v5.0.0"}},
	{"a skipRange that excludes the installed version", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v5.0.0 s range=>=2.0.0"}}, []string{"s a.v1.0.0 held"}},
	{"a skipRange that would downgrade", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v0.9.0 s range=<2.0.0"}}, []string{"s a.v1.0.0 held"}},
	{"a skipRange of an entry without a version", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.vold s range=<2.0.0"}}, []string{"s a.v1.0.0 held"}},
	{"heads of two channels", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0"}, {"ask s ns/c/a/s"}, {"ask u ns/c/b/s"}}, []string{"s a.v1.0.0", "u !"}},
	{"a switch of channels", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0", "ask s ns/c/a/s", "ask s ns/c/a/t"}}, []string{"s a.v2.0.0"}},
	{"no downgrade", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0", "ask s ns/c/a/t", "ask s ns/c/a/s"}}, []string{"s a.v2.0.0 held"}},
	{"keeps a failed version", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "fail s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0"}}, []string{"s a.v1.0.0"}},
	{"until it recovers", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "fail s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0", "recover s"}}, []string{"s a.v2.0.0"}},
	{"fail forward", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "fail s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0"}, {"forward"}}, []string{"s a.v2.0.0"}},
	{"startingCSV", [][]string{{"publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0; a.v3.0.0 s replaces=a.v2.0.0", "ask s ns/c/a/s/a.v1.0.0"}}, []string{"s a.v3.0.0"}},
	{"a startingCSV that is published later", [][]string{{"publish ns/c a.v1.0.0 s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0"}, {"ask s ns/c/a/s/a.v2.0.0"}}, []string{"s a.v2.0.0"}},
	{"no upgrade to a deprecated version", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0 deprecated"}}, []string{"s a.v1.0.0 held"}},
	{"an added dependency", [][]string{{"publish ns/c a.v1.0.0 s; b.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0 needs=b:>=1.0.0; b.v1.0.0 s"}},
		[]string{"b b.v1.0.0", "s a.v2.0.0"}},
	{"a dropped dependency", [][]string{{"publish ns/c a.v1.0.0 s needs=b:>=1.0.0; b.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0"}},
		[]string{"b b.v2.0.0", "s a.v2.0.0"}},
	{"a dependent holds back its dependency", [][]string{{"publish ns/c a.v1.0.0 s needs=b:<2.0.0; b.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v1.0.0 s needs=b:<2.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0"}},
		[]string{"b b.v1.0.0 held", "s a.v1.0.0"}},
	{"another Subscription holds back the package", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0", "ask s ns/c/a/s", "ask u ns/c/a/t"}}, []string{"s a.v1.0.0", "u a.v1.0.0 held"}},
	{"until the other Subscription changes its channel", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0", "ask s ns/c/a/s", "ask u ns/c/a/t", "ask s ns/c/a/t"}}, []string{"s a.v2.0.0", "u a.v2.0.0"}},
	{"an unmet requirement holds back the upgrade", [][]string{{"publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0 needs=b:>=1.0.0", "ask s ns/c/a/s/a.v1.0.0"}}, []string{"s a.v1.0.0 held"}},
	{"until a catalog provides it", [][]string{{"publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0 needs=b:>=1.0.0"}, {"ask s ns/c/a/s/a.v1.0.0"}, {"publish ns/d b.v1.0.0 s"}}, []string{"b b.v1.0.0", "s a.v2.0.0"}},
	{"until both can be upgraded together", [][]string{{"publish ns/c a.v1.0.0 s needs=b:<2.0.0; b.v1.0.0 s", "ask s ns/c/a/s",
		"publish ns/c a.v1.0.0 s needs=b:<2.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0",
		"publish ns/c a.v1.0.0 s needs=b:<2.0.0; a.v2.0.0 s replaces=a.v1.0.0 needs=b:>=2.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0"}}, []string{"b b.v2.0.0", "s a.v2.0.0"}},
	{"a switch of catalogs", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "ask s ns/d/a/s"}, {"publish ns/d a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0"}}, []string{"s a.v2.0.0"}},
	{"a late catalog", [][]string{{"ask s ns/c/a/s"}, {"publish ns/c a.v1.0.0 s needs=b:>=1.0.0"}, {"publish ns/d b.v1.0.0 s"}}, []string{"b b.v1.0.0", "s a.v1.0.0"}},
	{"a user subscribes to a dependency", [][]string{{"publish ns/c a.v1.0.0 s needs=b:>=1.0.0; b.v1.0.0 s", "ask s ns/c/a/s", "ask t ns/c/b/s", "publish ns/c a.v1.0.0 s needs=b:>=1.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0"}},
		[]string{"b b.v2.0.0", "s a.v1.0.0", "t b.v2.0.0"}},
	{"a kind that moves from one operator to another", [][]string{{"publish ns/c a.v1.0.0 s owns=K; b.v1.0.0 s", "ask s ns/c/a/s", "ask t ns/c/b/s",
		"publish ns/c a.v1.0.0 s owns=K; a.v2.0.0 s replaces=a.v1.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0 owns=K"}}, []string{"s a.v2.0.0", "t b.v2.0.0"}},
	{"a dependent holds back the only owner of its kind", [][]string{{"publish ns/c a.v1.0.0 s owns=K; b.v1.0.0 s api=K", "ask s ns/c/a/s", "ask t ns/c/b/s",
		"publish ns/c a.v1.0.0 s owns=K; a.v2.0.0 s replaces=a.v1.0.0; b.v1.0.0 s api=K"}}, []string{"s a.v1.0.0 held", "t b.v1.0.0"}},
	{"until it no longer requires the kind", [][]string{{"publish ns/c a.v1.0.0 s owns=K; b.v1.0.0 s api=K", "ask s ns/c/a/s", "ask t ns/c/b/s",
		"publish ns/c a.v1.0.0 s owns=K; a.v2.0.0 s replaces=a.v1.0.0; b.v1.0.0 s api=K; b.v2.0.0 s replaces=b.v1.0.0"}}, []string{"s a.v2.0.0", "t b.v2.0.0"}},
	{"an installed owner takes precedence over a later one", [][]string{{"publish ns/c a.v1.0.0 s owns=K; b.v1.0.0 s owns=K", "ask t ns/c/b/s", "ask s ns/c/a/s"}}, []string{"s !", "t b.v1.0.0"}},
}

// simulation is a namespace in which a story takes place.
type simulation struct {
	rand     *rand.Rand
	catalogs map[string]*catalog.Snapshot
	subjects map[string]Subject
	failed   map[string]bool
	forward  bool
	last     Answer
	// served contains the kinds that installed versions own or owned. Their CRDs are never deleted.
	served map[api]bool
}

func (p *simulation) apply(event string) {
	word, rest, _ := strings.Cut(event, " ")
	switch word {
	case "publish":
		key, lines, _ := strings.Cut(rest, " ")
		p.catalogs[key] = graph(key, strings.Split(lines, "; ")...)
	case "ask":
		s := parseSubject(rest)
		for _, other := range p.subjects { // Subscriptions to a package share its installed version
			if other.Subscription.Spec.Package == s.Subscription.Spec.Package {
				s.Installed = other.Installed
			}
		}
		p.subjects[s.Subscription.Name] = s
	case "fail":
		p.failed[rest] = true
	case "recover":
		p.failed[rest] = false
	case "forward":
		p.forward = true
	}
}

func (p *simulation) resolve() Answer {
	var catalogs []*catalog.Snapshot
	for _, s := range p.catalogs {
		catalogs = append(catalogs, s)
	}
	var ns Namespace
	for name, s := range p.subjects {
		s.Keep = p.failed[name] && !p.forward
		s.Optional = strings.HasPrefix(string(s.Subscription.UID), "made") && s.Installed == nil
		ns.Subjects = append(ns.Subjects, s)
	}
	in := world(catalogs...)
	in.Serves = func(kind schema.GroupVersionKind) bool { return p.served[api(kind)] }
	return in.resolve(ns)
}

// establish records that the kinds that a version owns are served.
func (p *simulation) establish(c Choice) {
	for _, a := range factsOf(p.catalogs[c.Catalog.String()].Packages[c.Package].Bundles[c.Bundle]).apis {
		p.served[a] = true
	}
}

// runToCompletion repeatedly resolves the namespace and installs one randomly chosen set, until there are no sets.
func (p *simulation) runToCompletion(t *testing.T) {
	t.Helper()
	for range 100 {
		p.last = p.resolve()
		if len(p.last.Sets) == 0 {
			return
		}
		set := p.last.Sets[p.rand.IntN(len(p.last.Sets))]
		for _, c := range set {
			if c.Subscription == nil {
				made := parseSubject(fmt.Sprintf("%s %s/%s/%s/%s", c.Package, c.Catalog, c.Package, c.Channel, c.Bundle))
				made.Subscription.UID = "made-" + made.Subscription.UID
				p.subjects[c.Package] = made
			}
		}
		if slices.ContainsFunc(set, func(c Choice) bool { return c.Subscription == nil }) {
			continue
		}
		for _, c := range set {
			p.establish(c)
			for name, s := range p.subjects {
				if s.Subscription.Spec.Package == c.Package {
					require.Equal(t, s.Installed == nil, c.Replaces == "")
					s.Installed = csvNamed(c.Bundle)
					p.failed[name] = false
					p.subjects[name] = s
				}
			}
		}
	}
	require.Fail(t, "does not converge")
}

func (p *simulation) result() []string {
	var out []string
	for name, s := range p.subjects {
		switch {
		case s.Installed != nil && p.last.HeldBack[s.Subscription.UID] != nil:
			out = append(out, name+" "+s.Installed.Name+" held")
		case s.Installed != nil:
			out = append(out, name+" "+s.Installed.Name)
		case p.last.Problems[s.Subscription.UID] != nil:
			out = append(out, name+" !")
		}
	}
	slices.Sort(out)
	return out
}

func TestStoriesEndTheSameInAnyOrder(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			for seed := range uint64(30) {
				p := &simulation{rand: rand.New(rand.NewPCG(seed, 7)), catalogs: map[string]*catalog.Snapshot{}, subjects: map[string]Subject{}, failed: map[string]bool{}, served: map[api]bool{}}
				rows := slices.Clone(s.rows)
				var events []string
				for len(rows) > 0 {
					i := p.rand.IntN(len(rows))
					p.apply(rows[i][0])
					events = append(events, rows[i][0])
					if rows[i] = rows[i][1:]; len(rows[i]) == 0 {
						rows = slices.Delete(rows, i, i+1)
					}
					p.runToCompletion(t)
				}
				require.Equal(t, s.want, p.result(), "seed %d: %q", seed, events)
			}
		})
	}
}
