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

// story is what happens to a namespace: rows of events, each in its order, mixed at random. However they are
// mixed, the end is the same. Words of events:
//
//	publish <catalog> <release>; <release>; …    what a catalog has from then on
//	ask <Subscription, as asks reads it>         also changes one
//	fail <Subscription>, mend <Subscription>     what it has installed is not well, is well again
//	forward                                      what has failed may be replaced
//
// At the end, "held" says that something else of the channel does not take the place of what is installed.
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
	{"a skipRange that leaves it out", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v5.0.0 s range=>=2.0.0"}}, []string{"s a.v1.0.0 held"}},
	{"a skipRange that leads back", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v0.9.0 s range=<2.0.0"}}, []string{"s a.v1.0.0 held"}},
	{"a skipRange to what has no version", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.vold s range=<2.0.0"}}, []string{"s a.v1.0.0 held"}},
	{"heads of two channels", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0"}, {"ask s ns/c/a/s"}, {"ask u ns/c/b/s"}}, []string{"s a.v1.0.0", "u !"}},
	{"a switch of channels", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0", "ask s ns/c/a/s", "ask s ns/c/a/t"}}, []string{"s a.v2.0.0"}},
	{"no way back", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0", "ask s ns/c/a/t", "ask s ns/c/a/s"}}, []string{"s a.v2.0.0 held"}},
	{"what has failed stays", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "fail s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0"}}, []string{"s a.v1.0.0"}},
	{"until it is mended", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "fail s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0", "mend s"}}, []string{"s a.v2.0.0"}},
	{"fail forward", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "fail s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0"}, {"forward"}}, []string{"s a.v2.0.0"}},
	{"startingCSV", [][]string{{"publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0; a.v3.0.0 s replaces=a.v2.0.0", "ask s ns/c/a/s/a.v1.0.0"}}, []string{"s a.v3.0.0"}},
	{"startingCSV that is not there yet", [][]string{{"publish ns/c a.v1.0.0 s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0"}, {"ask s ns/c/a/s/a.v2.0.0"}}, []string{"s a.v2.0.0"}},
	{"what is deprecated is not upgraded to", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0 deprecated"}}, []string{"s a.v1.0.0 held"}},
	{"a dependency that is added", [][]string{{"publish ns/c a.v1.0.0 s; b.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0 needs=b:>=1.0.0; b.v1.0.0 s"}},
		[]string{"b b.v1.0.0", "s a.v2.0.0"}},
	{"and dropped", [][]string{{"publish ns/c a.v1.0.0 s needs=b:>=1.0.0; b.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0"}},
		[]string{"b b.v2.0.0", "s a.v2.0.0"}},
	{"a dependency holds back what it needs", [][]string{{"publish ns/c a.v1.0.0 s needs=b:<2.0.0; b.v1.0.0 s", "ask s ns/c/a/s", "publish ns/c a.v1.0.0 s needs=b:<2.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0"}},
		[]string{"b b.v1.0.0 held", "s a.v1.0.0"}},
	{"another Subscription holds back its package", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0", "ask s ns/c/a/s", "ask u ns/c/a/t"}}, []string{"s a.v1.0.0", "u a.v1.0.0 held"}},
	{"until it follows", [][]string{{"publish ns/c a.v1.0.0 s,t; a.v2.0.0 t replaces=a.v1.0.0", "ask s ns/c/a/s", "ask u ns/c/a/t", "ask s ns/c/a/t"}}, []string{"s a.v2.0.0", "u a.v2.0.0"}},
	{"what nobody offers holds back", [][]string{{"publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0 needs=b:>=1.0.0", "ask s ns/c/a/s/a.v1.0.0"}}, []string{"s a.v1.0.0 held"}},
	{"until it comes", [][]string{{"publish ns/c a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0 needs=b:>=1.0.0"}, {"ask s ns/c/a/s/a.v1.0.0"}, {"publish ns/d b.v1.0.0 s"}}, []string{"b b.v1.0.0", "s a.v2.0.0"}},
	{"until both can go on", [][]string{{"publish ns/c a.v1.0.0 s needs=b:<2.0.0; b.v1.0.0 s", "ask s ns/c/a/s",
		"publish ns/c a.v1.0.0 s needs=b:<2.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0",
		"publish ns/c a.v1.0.0 s needs=b:<2.0.0; a.v2.0.0 s replaces=a.v1.0.0 needs=b:>=2.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0"}}, []string{"b b.v2.0.0", "s a.v2.0.0"}},
	{"a switch of the catalog", [][]string{{"publish ns/c a.v1.0.0 s", "ask s ns/c/a/s", "ask s ns/d/a/s"}, {"publish ns/d a.v1.0.0 s; a.v2.0.0 s replaces=a.v1.0.0"}}, []string{"s a.v2.0.0"}},
	{"a catalog that comes late", [][]string{{"ask s ns/c/a/s"}, {"publish ns/c a.v1.0.0 s needs=b:>=1.0.0"}, {"publish ns/d b.v1.0.0 s"}}, []string{"b b.v1.0.0", "s a.v1.0.0"}},
	{"a person asks for what was made", [][]string{{"publish ns/c a.v1.0.0 s needs=b:>=1.0.0; b.v1.0.0 s", "ask s ns/c/a/s", "ask t ns/c/b/s", "publish ns/c a.v1.0.0 s needs=b:>=1.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0"}},
		[]string{"b b.v2.0.0", "s a.v1.0.0", "t b.v2.0.0"}},
	{"a kind that moves from one operator to another", [][]string{{"publish ns/c a.v1.0.0 s owns=K; b.v1.0.0 s", "ask s ns/c/a/s", "ask t ns/c/b/s",
		"publish ns/c a.v1.0.0 s owns=K; a.v2.0.0 s replaces=a.v1.0.0; b.v1.0.0 s; b.v2.0.0 s replaces=b.v1.0.0 owns=K"}}, []string{"s a.v2.0.0", "t b.v2.0.0"}},
	{"who comes later does not push out who is there", [][]string{{"publish ns/c a.v1.0.0 s owns=K; b.v1.0.0 s owns=K", "ask t ns/c/b/s", "ask s ns/c/a/s"}}, []string{"s !", "t b.v1.0.0"}},
}

// play is a namespace in which a story is told.
type play struct {
	rand     *rand.Rand
	catalogs map[string]*catalog.Snapshot
	subjects map[string]Subject
	failed   map[string]bool
	forward  bool
	last     Answer
}

func (p *play) happen(event string) {
	word, rest, _ := strings.Cut(event, " ")
	switch word {
	case "publish":
		key, lines, _ := strings.Cut(rest, " ")
		p.catalogs[key] = graph(key, strings.Split(lines, "; ")...)
	case "ask":
		s := asks(rest)
		for _, other := range p.subjects { // they share what is installed of a package
			if other.Subscription.Spec.Package == s.Subscription.Spec.Package {
				s.Installed = other.Installed
			}
		}
		p.subjects[s.Subscription.Name] = s
	case "fail":
		p.failed[rest] = true
	case "mend":
		p.failed[rest] = false
	case "forward":
		p.forward = true
	}
}

func (p *play) resolve() Answer {
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
	return world(catalogs...).resolve(ns)
}

// settle carries out what is decided, one set at a time, any first.
func (p *play) settle(t *testing.T) {
	t.Helper()
	for range 100 {
		p.last = p.resolve()
		if len(p.last.Sets) == 0 {
			return
		}
		set := p.last.Sets[p.rand.IntN(len(p.last.Sets))]
		for _, c := range set {
			if c.Subscription == nil {
				made := asks(fmt.Sprintf("%s %s/%s/%s/%s", c.Package, c.Catalog, c.Package, c.Channel, c.Bundle))
				made.Subscription.UID = "made-" + made.Subscription.UID
				p.subjects[c.Package] = made
			}
		}
		if slices.ContainsFunc(set, func(c Choice) bool { return c.Subscription == nil }) {
			continue
		}
		for _, c := range set {
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
	require.Fail(t, "it never ends")
}

func (p *play) end() []string {
	var out []string
	for name, s := range p.subjects {
		switch {
		case s.Installed != nil && p.last.Held[s.Subscription.UID] != nil:
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

func TestStoriesEndTheSameInWhateverOrder(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			for seed := range uint64(30) {
				p := &play{rand: rand.New(rand.NewPCG(seed, 7)), catalogs: map[string]*catalog.Snapshot{}, subjects: map[string]Subject{}, failed: map[string]bool{}}
				rows := slices.Clone(s.rows)
				var told []string
				for len(rows) > 0 {
					i := p.rand.IntN(len(rows))
					p.happen(rows[i][0])
					told = append(told, rows[i][0])
					if rows[i] = rows[i][1:]; len(rows[i]) == 0 {
						rows = slices.Delete(rows, i, i+1)
					}
					p.settle(t)
				}
				require.Equal(t, s.want, p.end(), "seed %d: %q", seed, told)
			}
		})
	}
}
