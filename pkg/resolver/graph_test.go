package resolver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
)

// graph parses a catalog with one bundle per line: "a.v2.0.0 stable,beta replaces=a.v1.0.0 skips=a.v0.1.0 range=<2.0.0
// owns=Kind needs=b:>=1.0.0 api=Kind constraint={...} label=x wants=x deprecated". The default channel of a package is
// the first channel of its first bundle.
func graph(key string, lines ...string) *catalog.Snapshot {
	namespace, name, _ := strings.Cut(key, "/")
	s := &catalog.Snapshot{
		Key: types.NamespacedName{Namespace: namespace, Name: name}, Packages: map[string]*catalog.Package{}, Reader: anyContent{},
	}
	for _, line := range lines {
		words := strings.Fields(line)
		pkg, version, _ := strings.Cut(words[0], ".v")
		p := s.Packages[pkg]
		channels := strings.Split(words[1], ",")
		if p == nil {
			p = &catalog.Package{Name: pkg, DefaultChannel: channels[0], Channels: map[string]*catalog.Channel{}, Bundles: map[string]*catalog.Bundle{}}
			s.Packages[pkg] = p
		}
		b := &catalog.Bundle{Name: words[0], Package: pkg, Version: version}
		e := catalog.Entry{Name: b.Name}
		for _, word := range words[2:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "replaces":
				e.Replaces = value
			case "skips":
				e.Skips = strings.Split(value, ",")
			case "range":
				e.SkipRange = value
			default:
				b.Properties = append(b.Properties, propertyOf(key, value))
			}
		}
		p.Bundles[b.Name] = b
		for _, c := range channels {
			if p.Channels[c] == nil {
				p.Channels[c] = &catalog.Channel{Name: c, Entries: map[string]catalog.Entry{}}
			}
			p.Channels[c].Entries[e.Name] = e
		}
	}
	s.Digest = catalog.Digest(s.Packages, func(string, string) string { return "" })
	return s
}

func propertyOf(key, value string) catalog.Property {
	kind := func(t string) catalog.Property {
		return catalog.Property{Type: t, Value: json.RawMessage(fmt.Sprintf(`{"group": "x", "version": "v1", "kind": %q}`, value))}
	}
	switch key {
	case "owns":
		return kind("olm.gvk")
	case "api":
		return kind("olm.gvk.required")
	case "needs":
		pkg, versions, _ := strings.Cut(value, ":")
		text, _ := json.Marshal(map[string]string{"packageName": pkg, "versionRange": versions})
		return catalog.Property{Type: "olm.package.required", Value: text}
	case "label", "wants":
		t := map[string]string{"label": "olm.label", "wants": "olm.label.required"}[key]
		return catalog.Property{Type: t, Value: json.RawMessage(fmt.Sprintf(`{"label": %q}`, value))}
	case "constraint":
		return catalog.Property{Type: "olm.constraint", Value: json.RawMessage(value)}
	case "deprecated":
		return catalog.Property{Type: "olm.deprecated", Value: json.RawMessage(`{}`)}
	}
	panic("unknown keyword: " + key)
}

// world returns the Input of namespace "ns" with the catalogs; "global" is the global namespace. A catalog whose
// Packages are nil has no content.
func world(catalogs ...*catalog.Snapshot) Input {
	store := &catalog.Store{}
	in := Input{Namespace: "ns", GlobalCatalogNamespace: "global", Catalogs: store, Indexes: &Indexes{}}
	for _, s := range catalogs {
		in.Visible = append(in.Visible, s.Key)
		if s.Packages != nil {
			store.Put(s)
		}
	}
	return in
}

// parseSubject parses "<name> <catalog namespace>/<catalog>/<package>/<channel>/<startingCSV> installed=x keep planned=x
// optional".
func parseSubject(text string) Subject {
	words := strings.Fields(text)
	f := strings.Split(words[1], "/")
	for len(f) < 5 {
		f = append(f, "")
	}
	s := Subject{Subscription: &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: words[0], UID: types.UID(words[0])},
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSourceNamespace: f[0], CatalogSource: f[1], Package: f[2], Channel: f[3], StartingCSV: f[4],
		},
	}}
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "installed":
			s.Installed = csvNamed(value)
		case "planned":
			s.Planned = &Pin{Subscription: words[0], CatalogNamespace: f[0], Catalog: f[1], Package: f[2], Channel: f[3], Bundle: value}
		case "keep":
			s.Keep = true
		case "optional":
			s.Optional = true
		}
	}
	return s
}

// csvNamed returns a CSV with the version that its name contains.
func csvNamed(name string, properties ...catalog.Property) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	_, version, _ := strings.Cut(name, ".v")
	_ = csv.Spec.Version.UnmarshalJSON([]byte(`"` + version + `"`))
	if len(properties) > 0 {
		text, _ := json.Marshal(map[string]any{"properties": properties})
		csv.Annotations = map[string]string{"operatorframework.io/properties": string(text)}
	}
	return csv
}

// format renders an answer as text: one line per set, with "sub:bundle", or "+bundle" for a dependency without a
// Subscription, and "<old" for the version that it replaces; then "!sub" for each problem.
func format(a Answer) []string {
	var out []string
	for _, set := range a.Sets {
		var words []string
		for _, c := range set {
			word := "+" + c.Bundle
			if c.Subscription != nil {
				word = c.Subscription.Name + ":" + c.Bundle
			}
			if c.Replaces != "" {
				word += "<" + c.Replaces
			}
			words = append(words, word)
		}
		out = append(out, strings.Join(words, " "))
	}
	var problems []string
	for uid := range a.Problems {
		problems = append(problems, "!"+string(uid))
	}
	slices.Sort(problems)
	return append(out, problems...)
}

func subjects(texts ...string) (ns Namespace) {
	for _, text := range texts {
		ns.Subjects = append(ns.Subjects, parseSubject(text))
	}
	return ns
}

func TestResolve(t *testing.T) {
	upgrades := []string{
		"a.v1.0.0 stable", "a.v2.0.0 stable replaces=a.v1.0.0", "a.v3.0.0 stable replaces=a.v2.0.0",
		"b.v1.0.0 stable", "b.v2.0.0 stable replaces=b.v1.0.0 needs=c:>=2.0.0",
		"c.v1.0.0 stable", "c.v2.0.0 stable replaces=c.v1.0.0 owns=C",
		"d.v1.0.0 stable api=C",
		"e.v1.0.0 stable needs=nothing:>=1.0.0",
		"f.v1.0.0 stable", "f.v2.0.0 stable replaces=f.v1.0.0 api=Missing",
		"g.v1.0.0 stable", "g.v3.0.0 stable replaces=g.v1.0.0 skips=g.v2.0.0", "g.v2.0.0 stable replaces=g.v1.0.0",
		"h.v3.0.0 stable range=<3.0.0", "i.v1.0.0 stable deprecated", "i.v2.0.0 stable replaces=i.v1.0.0 deprecated",
		"h.v2.0.0 beta", "j.v1.0.0 stable owns=C",
		"k.v1.0.0 stable needs=l:>=1.0.0", "l.v1.0.0 stable needs=k:>=1.0.0",
		"m.v1.0.0 stable owns=M api=M", "m.v2.0.0 stable replaces=m.v1.0.0 owns=M api=M",
		"n.v1.0.0 stable needs=o:>=1.0.0", "n.v2.0.0 stable replaces=n.v1.0.0", "o.v1.0.0 stable", "o.v2.0.0 stable replaces=o.v1.0.0",
		"p.v1.0.0 stable needs=q:<2.0.0", "p.v2.0.0 stable replaces=p.v1.0.0", "q.v1.0.0 stable owns=Q", "q.v2.0.0 stable replaces=q.v1.0.0",
		"r.v1.0.0 stable", "r.v2.0.0 stable replaces=r.v1.0.0 owns=Q",
		`t.v1.0.0 stable constraint={"any":{"constraints":[{"package":{"packageName":"u","versionRange":"<2.0.0"}},{"package":{"packageName":"v","versionRange":">=1.0.0"}}]}}`,
		"u.v1.0.0 stable", "u.v2.0.0 stable replaces=u.v1.0.0", "v.v1.0.0 stable needs=w:>=1.0.0", "w.v1.0.0 stable",
	}
	for _, row := range []struct {
		name     string
		subjects []string
		want     []string
	}{
		{"the head", []string{"s ns/cat/a/stable"}, []string{"s:a.v3.0.0"}},
		{"the head of the default channel", []string{"s ns/cat/a/"}, []string{"s:a.v3.0.0"}},
		{"another dependency of a version that stays in place", []string{"s ns/cat/t/stable/ installed=t.v1.0.0", "x ns/cat/u/stable/ installed=u.v1.0.0"},
			[]string{"x:u.v2.0.0<u.v1.0.0 +v.v1.0.0 +w.v1.0.0"}},
		{"startingCSV", []string{"s ns/cat/a/stable/a.v1.0.0"}, []string{"s:a.v1.0.0"}},
		{"then upgrades one step at a time", []string{"s ns/cat/a/stable/a.v1.0.0 installed=a.v1.0.0"}, []string{"s:a.v2.0.0<a.v1.0.0"}},
		{"until the head is installed", []string{"s ns/cat/a/stable installed=a.v3.0.0"}, nil},
		{"no upgrade while the installed version must be kept", []string{"s ns/cat/a/stable installed=a.v1.0.0 keep"}, nil},
		{"no upgrade while a plan is in progress", []string{"s ns/cat/a/stable installed=a.v1.0.0 planned=a.v2.0.0"}, nil},
		{"keeps a version that is not in the channel", []string{"s ns/cat/a/stable installed=a.v0.9.0"}, nil},
		{"upgrades past a skipped version", []string{"s ns/cat/g/stable installed=g.v1.0.0"}, []string{"s:g.v3.0.0<g.v1.0.0"}},
		{"upgrades from a skipped version", []string{"s ns/cat/g/stable installed=g.v2.0.0"}, []string{"s:g.v3.0.0<g.v2.0.0"}},
		{"upgrades by skipRange", []string{"s ns/cat/h/stable installed=h.v2.0.0"}, []string{"s:h.v3.0.0<h.v2.0.0"}},
		{"never downgrades by skipRange", []string{"s ns/cat/h/stable installed=h.v3.1.0"}, nil},
		{"installs a dependency", []string{"s ns/cat/b/stable"}, []string{"s:b.v2.0.0 +c.v2.0.0"}},
		{"with the Subscription created for the dependency", []string{"s ns/cat/b/stable", "o ns/cat/c/stable/c.v2.0.0 optional"}, []string{"s:b.v2.0.0 o:c.v2.0.0"}},
		{"ignores a dependency that is no longer needed", []string{"s ns/cat/a/stable", "o ns/cat/c/stable/c.v2.0.0 optional"}, []string{"s:a.v3.0.0"}},
		{"with a user's Subscription to the dependency", []string{"s ns/cat/b/stable", "p ns/cat/c/stable"}, []string{"p:c.v2.0.0 s:b.v2.0.0"}},
		{"uses an installed dependency", []string{"s ns/cat/b/stable", "p ns/cat/c/stable installed=c.v2.0.0"}, []string{"s:b.v2.0.0"}},
		{"upgrades an installed dependency", []string{"p ns/cat/c/stable installed=c.v1.0.0", "s ns/cat/b/stable installed=b.v1.0.0"}, []string{"p:c.v2.0.0<c.v1.0.0 s:b.v2.0.0<b.v1.0.0"}},
		{"upgrades a dependency separately from its dependent", []string{"n ns/cat/n/stable installed=n.v1.0.0", "o ns/cat/o/stable installed=o.v1.0.0"}, []string{"n:n.v2.0.0<n.v1.0.0", "o:o.v2.0.0<o.v1.0.0"}},
		{"but together if the old dependent rejects the new dependency", []string{"p ns/cat/p/stable installed=p.v1.0.0", "q ns/cat/q/stable installed=q.v1.0.0"}, []string{"p:p.v2.0.0<p.v1.0.0 q:q.v2.0.0<q.v1.0.0"}},
		{"moves a kind in one set", []string{"q ns/cat/q/stable installed=q.v1.0.0", "r ns/cat/r/stable installed=r.v1.0.0"}, []string{"q:q.v2.0.0<q.v1.0.0 r:r.v2.0.0<r.v1.0.0"}},
		{"chooses an older version if the newest cannot be installed", []string{"p ns/cat/c/stable installed=c.v1.0.0 keep", "s ns/cat/b/stable"}, []string{"s:b.v1.0.0"}},
		{"no upgrade with unmet requirements", []string{"s ns/cat/f/stable installed=f.v1.0.0"}, nil},
		{"no new install with unmet requirements", []string{"s ns/cat/f/stable"}, []string{"s:f.v1.0.0"}},
		{"a requirement that no catalog provides", []string{"s ns/cat/e/stable"}, []string{"!s"}},
		{"does not affect other Subscriptions", []string{"a ns/cat/a/stable", "s ns/cat/e/stable", "z ns/cat/c/stable"}, []string{"a:a.v3.0.0", "z:c.v2.0.0", "!s"}},
		{"two owners of one kind", []string{"a ns/cat/a/stable", "c ns/cat/c/stable/c.v2.0.0", "j ns/cat/j/stable"}, []string{"a:a.v3.0.0", "!c", "!j"}},
		{"two owners of one kind, one installed", []string{"c ns/cat/c/stable installed=c.v2.0.0", "j ns/cat/j/stable"}, []string{"!j"}},
		{"two owners of one kind, both installed", []string{"c ns/cat/c/stable installed=c.v2.0.0", "d ns/cat/d/stable", "j ns/cat/j/stable installed=j.v1.0.0"}, []string{"d:d.v1.0.0"}},
		{"chooses an older version that does not own the kind", []string{"c ns/cat/c/stable", "j ns/cat/j/stable installed=j.v1.0.0"}, []string{"c:c.v1.0.0"}},
		{"mutual dependencies", []string{"k ns/cat/k/stable"}, []string{"k:k.v1.0.0 +l.v1.0.0"}},
		{"requires a kind that it owns", []string{"m ns/cat/m/stable"}, []string{"m:m.v2.0.0"}},
		{"requires a kind that it owns, in an upgrade", []string{"m ns/cat/m/stable installed=m.v1.0.0"}, []string{"m:m.v2.0.0<m.v1.0.0"}},
		{"deprecated versions are not installed", []string{"i ns/cat/i/stable"}, []string{"!i"}},
		{"deprecated versions are not upgraded to", []string{"i ns/cat/i/stable installed=i.v1.0.0"}, nil},
		{"an unknown package", []string{"s ns/cat/z/stable installed=z.v1.0.0"}, []string{"!s"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := world(graph("ns/cat", upgrades...)).resolve(subjects(row.subjects...))
			require.Equal(t, row.want, format(got), "%v", got.Problems)
		})
	}
}

func TestCatalogsInOrderOfPreference(t *testing.T) {
	serving := func(key string, priority int) *catalog.Snapshot {
		s := graph(key, "dep.v1.0.0 stable owns=K")
		s.Priority = priority
		return s
	}
	asking := graph("ns/asking", "op.v1.0.0 stable api=K")
	for _, row := range []struct {
		name string
		in   Input
		want string
	}{
		{"the operator's own catalog", world(graph("ns/asking", "op.v1.0.0 stable api=K", "dep.v1.0.0 stable owns=K"), serving("ns/a", 9)), "ns/asking"},
		{"the catalog with the highest priority", world(asking, serving("ns/a", 1), serving("global/b", 2)), "global/b"},
		{"the catalog in the namespace", world(asking, serving("global/a", 1), serving("ns/b", 1)), "ns/b"},
		{"the first by name", world(asking, serving("ns/b", 1), serving("ns/a", 1)), "ns/a"},
		{"a catalog with content", world(asking, &catalog.Snapshot{Key: types.NamespacedName{Namespace: "ns", Name: "sick"}}, serving("ns/b", 1)), "ns/b"},
		{"no catalog of another namespace", world(asking, serving("foreign/a", 5), serving("ns/b", 1)), "ns/b"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := row.in.resolve(subjects("s ns/asking/op/stable"))
			require.Empty(t, got.Problems)
			require.Len(t, got.Sets, 1)
			require.Equal(t, row.want, got.Sets[0][1].Catalog.String())
			require.Equal(t, "s", got.Sets[0][1].NeededBy[0].Name)
		})
	}
	excluded := world(graph("ns/asking", "op.v1.0.0 stable api=K"), serving("global/a", 1))
	excluded.ExcludeGlobal = true
	require.Equal(t, []string{"!s"}, format(excluded.resolve(subjects("s ns/asking/op/stable"))))
}

// A change without a Subscription that needs it made the program panic.
func TestEveryChangeIsNeededByASubscription(t *testing.T) {
	either := `{"any":{"constraints":[{"package":{"packageName":"u","versionRange":"<2.0.0"}},{"package":{"packageName":"v","versionRange":">=1.0.0"}}]}}`
	in := world(graph("ns/cat", "t.v1.0.0 stable constraint="+either, "u.v1.0.0 stable", "u.v2.0.0 stable replaces=u.v1.0.0", "v.v1.0.0 stable needs=w:>=1.0.0", "w.v1.0.0 stable"))
	got := in.resolve(subjects("s ns/cat/t/stable/ installed=t.v1.0.0", "x ns/cat/u/stable/ installed=u.v1.0.0"))
	require.Len(t, got.Sets, 1)
	for k, want := range []string{"x", "s", "s"} {
		require.Len(t, got.Sets[0][k].NeededBy, 1)
		require.Equal(t, want, got.Sets[0][k].NeededBy[0].Name, got.Sets[0][k].Bundle)
	}
}

func TestChannelsInOrderOfPreference(t *testing.T) {
	in := world(graph("ns/cat", "op.v1.0.0 stable api=K", "dep.v2.0.0 stable,alpha owns=K", "dep.v3.0.0 alpha replaces=dep.v2.0.0 owns=K"))
	got := in.resolve(subjects("s ns/cat/op/stable"))
	require.Equal(t, []string{"s:op.v1.0.0 +dep.v2.0.0"}, format(got))
	require.Equal(t, "stable", got.Sets[0][1].Channel)
}

func TestConstraints(t *testing.T) {
	others := []string{
		"b.v1.0.0 stable owns=K label=x", "b.v2.0.0 stable replaces=b.v1.0.0 label=x", "c.v1.0.0 stable owns=K",
	}
	for _, row := range []struct{ name, constraint, want string }{
		{"a package", `{"package":{"packageName":"b","versionRange":"<2.0.0"}}`, "+b.v1.0.0"},
		{"a kind", `{"gvk":{"group":"x","version":"v1","kind":"K"}}`, "+b.v1.0.0"},
		{"all, for one operator", `{"all":{"constraints":[{"gvk":{"group":"x","version":"v1","kind":"K"}},{"package":{"packageName":"c","versionRange":">=0.0.1"}}]}}`, "+c.v1.0.0"},
		{"all, for two packages", `{"all":{"constraints":[{"package":{"packageName":"b","versionRange":">=2.0.0"}},{"package":{"packageName":"c","versionRange":">=0.0.1"}}]}}`, "+b.v2.0.0 +c.v1.0.0"},
		{"any", `{"any":{"constraints":[{"package":{"packageName":"z","versionRange":">=2.0.0"}},{"package":{"packageName":"c","versionRange":">=0.0.1"}}]}}`, "+c.v1.0.0"},
		{"all with not", `{"all":{"constraints":[{"gvk":{"group":"x","version":"v1","kind":"K"}},{"not":{"constraints":[{"package":{"packageName":"b","versionRange":">=0.0.1"}}]}}]}}`, "+c.v1.0.0"},
		{"a CEL rule", `{"cel":{"rule":"properties.exists(p,p.type=='olm.label'&&p.value.label=='x')"}}`, "+b.v2.0.0"},
		{"a CEL rule that compares versions", `{"cel":{"rule":"properties.exists(p,p.type=='olm.label')&&semver_compare('1.0.0','2.0.0')<0"}}`, "+b.v2.0.0"},
		{"a CEL rule that fails to evaluate", `{"cel":{"rule":"properties.all(p,p.value.nothing==1)"}}`, ""},
		{"a CEL rule that is not boolean", `{"cel":{"rule":"1+1"}}`, ""},
		{"a CEL rule that exceeds the cost limit", `{"cel":{"rule":"properties.exists(p,p.type=='olm.label')&&` + strings.Repeat("properties.all(a,", 12) + "true" + strings.Repeat(")", 12) + `"}}`, "+b.v2.0.0"},
		{"no constraint", `{}`, ""},
		{"two constraints in one", `{"gvk":{"group":"x","version":"v1","kind":"K"},"cel":{"rule":"true"}}`, ""},
		{"an empty all", `{"all":{"constraints":[]}}`, ""},
		{"an unknown constraint", `{"moon":"full"}`, ""},
		{"nested too deeply", strings.Repeat(`{"not":{"constraints":[`, 30) + `{"cel":{"rule":"true"}}` + strings.Repeat(`]}}`, 30), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := world(graph("ns/cat", append(others, "a.v1.0.0 stable constraint="+row.constraint)...)).resolve(subjects("s ns/cat/a/stable"))
			want := []string{"s:a.v1.0.0 " + row.want}
			if row.want == "" {
				want = []string{"!s"}
			}
			require.Equal(t, want, format(got), "%v", got.Problems)
		})
	}
	got := world(graph("ns/cat", append(others, "a.v1.0.0 stable wants=x")...)).resolve(subjects("s ns/cat/a/stable"))
	require.Equal(t, []string{"s:a.v1.0.0 +b.v2.0.0"}, format(got))
}

func TestExplainsClashesAndSuggestsAFix(t *testing.T) {
	sick := &catalog.Snapshot{Key: types.NamespacedName{Namespace: "global", Name: "sick"}}
	lines := []string{
		"a.v1.0.0 stable owns=K", "b.v1.0.0 stable owns=K", "c.v1.0.0 stable needs=d:>=1.0.0", "e.v1.0.0 stable", "e.v2.0.0 beta",
		"x.v1.0.0 stable needs=e:<2.0.0", "y.v1.0.0 stable needs=e:>=2.0.0", "z.v1.0.0 stable deprecated", `m.v1.0.0 stable constraint={}`,
		`f.v1.0.0 stable constraint={"failureMessage":"the-author-says","gvk":{"group":"x","version":"v1","kind":"None"}}`,
	}
	for _, row := range []struct {
		name     string
		with     *catalog.Snapshot
		subjects []string
		uid      types.UID
		reason   string
		want     string
	}{
		{"one kind, two owners", nil, []string{"s ns/cat/a/stable", "t ns/cat/b/stable"}, "s", ConstraintsNotSatisfiable,
			"constraints not satisfiable: subscription s exists, subscription s requires cat/ns/stable/a.v1.0.0, subscription t exists, subscription t requires cat/ns/stable/b.v1.0.0, " +
				"a.v1.0.0 and b.v1.0.0 provide K (x/v1). a.v1.0.0 and b.v1.0.0 would each own K (x/v1), but only one operator in a namespace can own it: delete subscription s or the subscription that installed the other, or use another namespace"},
		{"a need", nil, []string{"s ns/cat/c/stable"}, "s", ConstraintsNotSatisfiable,
			"constraints not satisfiable: subscription s exists, subscription s requires cat/ns/stable/c.v1.0.0, bundle c.v1.0.0 requires an operator with package: d and with version in range: >=1.0.0. " +
				"No catalog visible to namespace ns provides what bundle c.v1.0.0 requires: add a catalog that provides it, or delete subscription s"},
		{"a need that an unavailable catalog may meet", sick, []string{"s ns/cat/c/stable"}, "s", ErrorPreventedResolution,
			"requires: the content of catalogsource global/sick is not available, but it may include what the bundle requires"},
		{"the author's message", nil, []string{"s ns/cat/f/stable"}, "s", ConstraintsNotSatisfiable, "provides what bundle f.v1.0.0 requires (the-author-says): add a catalog that provides it"},
		{"two versions of one package", nil, []string{"s ns/cat/x/stable", "t ns/cat/y/stable"}, "t", ConstraintsNotSatisfiable,
			"e.v1.0.0 and e.v2.0.0 originate from package e. Subscriptions t and s require different versions of package e, but a namespace can have only one: change them to require the same version, or move one of them to another namespace"},
		{"only deprecated versions", nil, []string{"s ns/cat/z/stable"}, "s", ConstraintsNotSatisfiable, "constraints not satisfiable: bundle z.v1.0.0 is deprecated, subscription s exists"},
		{"an invalid dependency", nil, []string{"s ns/cat/m/stable"}, "s", ConstraintsNotSatisfiable, "bundle m.v1.0.0 has an invalid dependency: property olm.constraint: a constraint has 0 types"},
		{"an unavailable catalog", sick, []string{"s global/sick/x/stable", "t ns/cat/a/stable"}, "s", ErrorPreventedResolution, "error using catalogsource global/sick: its content is not available"},
	} {
		t.Run(row.name, func(t *testing.T) {
			catalogs := []*catalog.Snapshot{graph("ns/cat", lines...)}
			if row.with != nil {
				catalogs = append(catalogs, row.with)
			}
			got := world(catalogs...).resolve(subjects(row.subjects...))
			require.Contains(t, got.Problems, row.uid)
			require.Equal(t, row.reason, got.Problems[row.uid].Reason)
			require.Contains(t, got.Problems[row.uid].Message, row.want)
		})
	}
}

func TestKeepsCSVsWithoutASubscription(t *testing.T) {
	in := world(graph("ns/cat", "a.v1.0.0 stable owns=K", "b.v1.0.0 stable", "c.v1.0.0 stable api=K"))
	ns := subjects("s ns/cat/a/stable", "t ns/cat/b/stable", "u ns/cat/c/stable")
	ns.Others = append(ns.Others, csvNamed("by-hand.v1.0.0", propertyOf("owns", "K")))
	got := in.resolve(ns)
	require.Equal(t, []string{"t:b.v1.0.0", "u:c.v1.0.0", "!s"}, format(got))
	require.Contains(t, got.Problems["s"].Message, "clusterserviceversion by-hand.v1.0.0 exists and is not referenced by a subscription")
}
