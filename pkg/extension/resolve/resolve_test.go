package resolve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
)

// pkg returns a package "op" with channels like "stable: 1.0.0; 1.1.0 replaces 1.0.0; 2.0.0 skips 1.0.0 skips 1.1.0;
// 3.0.0 range <3.0.0". The bundle of version 1.0.0 is named op.v1.0.0. Versions marked with "deprecated" and channels whose name
// ends in "!" are deprecated.
func pkg(channels ...string) *catalog.Package {
	p := &catalog.Package{Name: "op", Channels: map[string]*catalog.Channel{}, Bundles: map[string]*catalog.Bundle{}}
	for _, text := range channels {
		name, entries, _ := strings.Cut(text, ": ")
		c := &catalog.Channel{Entries: map[string]catalog.Entry{}}
		if c.Name = strings.TrimSuffix(name, "!"); c.Name != name {
			c.Deprecation = "channel " + c.Name + " is deprecated"
		}
		p.Channels[c.Name] = c
		for entry := range strings.SplitSeq(entries, "; ") {
			words := strings.Split(entry, " ")
			e := catalog.Entry{Name: "op.v" + words[0]}
			b := &catalog.Bundle{Name: e.Name, Package: "op", Version: words[0]}
			for i := 1; i < len(words); i += 2 {
				switch words[i] {
				case "replaces":
					e.Replaces = "op.v" + words[i+1]
				case "skips":
					e.Skips = append(e.Skips, "op.v"+words[i+1])
				case "range":
					e.SkipRange = strings.ReplaceAll(words[i+1], "_", " ")
				case "deprecated":
					b.Deprecation = "bundle " + b.Name + " is deprecated"
				case "property":
					b.Properties = []catalog.Property{{Type: words[i+1]}}
				}
			}
			if c.Entries[e.Name] = e; p.Bundles[e.Name] == nil {
				p.Bundles[e.Name] = b
			}
		}
	}
	return p
}

func named(name string, p *catalog.Package) *catalog.Package {
	p.Name = name
	return p
}

// with returns a catalog "<name>", or "<name>/<priority>", that contains the packages and has the label "name".
func with(id string, packages ...*catalog.Package) Catalog {
	name, priority, _ := strings.Cut(id, "/")
	c := Catalog{Name: name, Labels: map[string]string{"name": name}, Snapshot: &catalog.Snapshot{
		Key: types.NamespacedName{Name: name}, Packages: map[string]*catalog.Package{},
	}}
	_, _ = fmt.Sscan(priority, &c.Priority)
	for _, p := range packages {
		c.Snapshot.Packages[p.Name] = p
	}
	return c
}

// unavailable returns a catalog whose content is not available.
func unavailable(id string) Catalog {
	c := with(id)
	c.Snapshot = nil
	return c
}

func catalogs(all ...Catalog) []Catalog { return all }

func installed(v string) *Installed { return &Installed{Name: "op.v" + v, Version: v} }

func chosenBy(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	require.NoError(t, err)
	return s
}

// resolution is a row of a test: want is "<catalog> <channel> <version>", "kept: <reason>" or "<reason of a Problem>:
// <message>".
type resolution struct {
	name     string
	catalogs []Catalog
	request  Request
	selector string
	want     string
}

func (r resolution) check(t *testing.T) {
	t.Helper()
	if r.request.Package == "" {
		r.request.Package = "op"
	}
	if r.selector != "" {
		r.request.Selector = chosenBy(t, r.selector)
	}
	got, err := Resolve(r.catalogs, r.request)
	require.Equal(t, r.want, outcome(got, err))
}

func outcome(got Result, err error) string {
	if p, ok := errors.AsType[*Problem](err); ok {
		return string(p.Reason) + ": " + p.Message
	}
	if got.Bundle == nil {
		return got.Kept
	}
	return got.Catalog + " " + got.Channel + " " + got.Bundle.Version
}

func run(t *testing.T, rows []resolution) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, r.check)
	}
}

const chain = "stable: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0; 2.0.0 replaces 1.2.0; 2.1.0-rc.1 replaces 2.0.0"

func TestSelectsAVersion(t *testing.T) {
	one := catalogs(with("a", pkg(chain)))
	rows := []resolution{
		{name: "the latest version", want: "a stable 2.1.0-rc.1"},
		{name: "by precedence, not by text", catalogs: catalogs(with("a", pkg("stable: 9.0.0; 10.0.0"))), want: "a stable 10.0.0"},
		{name: "the later release of a version", catalogs: catalogs(with("a", pkg("stable: 1.0.0; 1.0.0+2; 1.0.0+10; 1.0.0+9.x"))), want: "a stable 1.0.0+10"},
		{name: "bundles without a valid version are omitted", catalogs: catalogs(with("a", pkg("stable: 1.0.0; v2"))), want: "a stable 1.0.0"},
	}
	for versions, want := range map[string]string{
		"1.1.0": "1.1.0", "=1.1.0": "1.1.0", "1.1": "1.1.0", "1.x": "1.2.0", "1.1.x": "1.1.0", "1.1.*": "1.1.0", "*": "2.0.0", "~1.1.0": "1.1.0",
		"~1": "1.2.0", "^1.0.0": "1.2.0", "^1": "1.2.0", ">=1.0.0 <1.2.0": "1.1.0", ">=1.0.0, <1.2.0": "1.1.0", ">=1.0.0,<1.2.0": "1.1.0",
		">1.0.0 !=2.0.0": "1.2.0", "1.0.0 - 1.1.0": "1.1.0", "<1.1.0 || 1.2.0": "1.2.0", ">=2.0.0": "2.0.0", ">=2.0.0-0": "2.1.0-rc.1", "v1.1.0": "1.1.0",
		"2.1.0-rc.1": "2.1.0-rc.1",
	} {
		rows = append(rows, resolution{name: "in range " + versions, request: Request{Versions: versions}, want: "a stable " + want})
	}
	for i := range rows {
		if rows[i].catalogs == nil {
			rows[i].catalogs = one
		}
	}
	run(t, rows)
}

func TestSelectsAChannel(t *testing.T) {
	three := catalogs(with("a", pkg("alpha: 3.0.0", "beta: 1.0.0; 2.0.0", "stable: 1.0.0")))
	run(t, []resolution{
		{name: "all channels without a request", catalogs: three, want: "a alpha 3.0.0"},
		{name: "one", catalogs: three, request: Request{Channels: []string{"stable"}}, want: "a stable 1.0.0"},
		{name: "several", catalogs: three, request: Request{Channels: []string{"stable", "beta"}}, want: "a beta 2.0.0"},
		{name: "and a range", catalogs: three, request: Request{Channels: []string{"beta"}, Versions: "<2"}, want: "a beta 1.0.0"},
		{name: "one of them does not exist", catalogs: three, request: Request{Channels: []string{"stable", "gamma"}}, want: "a stable 1.0.0"},
		{name: "none exists", catalogs: three, request: Request{Channels: []string{"stabel"}},
			want: `ChannelNotFound: package "op" has no channel "stabel"; available channels: stable, alpha, beta`},
		{name: "the range excludes all", catalogs: three, request: Request{Channels: []string{"beta", "stable"}, Versions: ">2"},
			want: `NoMatchingVersion: package "op" has no version in the range ">2" in channel "beta" or "stable"; newest versions: 2.0.0, 1.0.0`},
	})
}

func TestSelectsACatalog(t *testing.T) {
	old, current := pkg("stable: 1.0.0"), pkg("stable: 2.0.0")
	other := named("other", pkg("stable: 1.0.0"))
	run(t, []resolution{
		{name: "the only one with the package", catalogs: catalogs(with("a/5", other), with("b", old)), want: "b stable 1.0.0"},
		{name: "by label", catalogs: catalogs(with("a", old), with("b", current)), selector: "name=a", want: "a stable 1.0.0"},
		{name: "by expression", catalogs: catalogs(with("a", old), with("b", current)), selector: "name notin (a)", want: "b stable 2.0.0"},
		{name: "by priority, not by version", catalogs: catalogs(with("a/1", old), with("b/-1", current)), want: "a stable 1.0.0"},
		{name: "by priority among those with a version in range", catalogs: catalogs(with("a/1", old), with("b", current)),
			request: Request{Versions: ">1"}, want: "b stable 2.0.0"},
		{name: "equal priorities", catalogs: catalogs(with("b/2", old), with("a/2", current), with("c/1", current)),
			want: `SeveralCatalogs: found bundles for package "op" in multiple catalogs with the same priority [a b]: select one with ` +
				`spec.source.catalog.selector, for example by the label olm.operatorframework.io/metadata.name, or give them different values of spec.priority (2)`},
		{name: "equal priorities below a higher one", catalogs: catalogs(with("a", old), with("b", old), with("c/1", current)), want: "c stable 2.0.0"},
		{name: "equal priorities, but one has no version in range", catalogs: catalogs(with("a", old), with("b", current)),
			request: Request{Versions: ">1"}, want: "b stable 2.0.0"},
		{name: "no catalog", want: "NoCatalogSelected: no ClusterCatalog is available"},
		{name: "no catalog with the label", catalogs: catalogs(with("a", old), with("b", old)), selector: "name=c",
			want: `NoCatalogSelected: no available ClusterCatalog matches the selector "name=c"; available ClusterCatalogs: a, b`},
		{name: "the package is only in a catalog that is not selected", catalogs: catalogs(with("a", old), with("b", other)), selector: "name=b",
			want: `PackageNotFound: package "op" was not found in ClusterCatalog "b"; it is in ClusterCatalog "a", but the selector is "name=b"`},
		{name: "an unavailable one with a higher priority", catalogs: catalogs(unavailable("a/1"), with("b", old)),
			want: `CatalogUnavailable: package "op" is available in ClusterCatalog "b", but the content of ClusterCatalog "a", with a higher priority, is not available`},
		{name: "an unavailable one with the same priority", catalogs: catalogs(unavailable("a"), with("b", old)), want: "b stable 1.0.0"},
		{name: "an unavailable one that is not selected", catalogs: catalogs(unavailable("a/1"), with("b", old)), selector: "name=b", want: "b stable 1.0.0"},
		{name: "an unavailable one may have the package", catalogs: catalogs(unavailable("a"), with("b", other)),
			want: `CatalogUnavailable: package "op" was not found in ClusterCatalog "b"; not available: the content of ClusterCatalog "a"`},
	})
}

func TestUpgradesAlongTheGraph(t *testing.T) {
	graph := pkg("stable: 1.0.0; 1.1.0 replaces 1.0.0; 1.2.0 replaces 1.1.0; 1.3.0 replaces 1.2.0 skips 1.1.0; 2.0.0 range >=1.2.0_<2.0.0",
		"beta: 1.0.0; 1.5.0 replaces 1.0.0")
	from := func(v string) Request { return Request{Installed: installed(v)} }
	requesting := func(r Request, versions string, channels ...string) Request {
		r.Versions, r.Channels = versions, channels
		return r
	}
	any := func(r Request) Request {
		r.Policy = SelfCertified
		return r
	}
	rows := []resolution{
		{name: "replaces, in any channel", request: from("1.0.0"), want: "a beta 1.5.0"},
		{name: "replaces, in the requested channel", request: requesting(from("1.0.0"), "", "stable"), want: "a stable 1.1.0"},
		{name: "skips", request: from("1.1.0"), want: "a stable 1.3.0"},
		{name: "skipRange", request: from("1.2.0"), want: "a stable 2.0.0"},
		{name: "skipRange of a version that is in no catalog", request: from("1.2.7"), want: "a stable 2.0.0"},
		{name: "the installed version itself", request: from("2.0.0"), want: "a stable 2.0.0"},
		{name: "pinned to the installed version", request: requesting(from("1.2.0"), "1.2.0"), want: "a stable 1.2.0"},
		{name: "in range only", request: requesting(from("1.2.0"), "<2"), want: "a stable 1.3.0"},
		{name: "SelfCertified jumps", request: any(from("1.0.0")), want: "a stable 2.0.0"},
		{name: "SelfCertified does not downgrade without a request", request: any(from("2.0.0")), want: "a stable 2.0.0"},
		{name: "SelfCertified downgrades on request", request: any(requesting(from("2.0.0"), "<1.2")), want: "a stable 1.1.0"},
		{name: "a range outside of the graph", request: requesting(from("1.0.0"), ">=2"), want: `NoMatchingUpgrade: the upgrade graph of package "op" has no ` +
			`upgrade from the installed bundle "op.v1.0.0" to a version in the range ">=2"; available upgrades: 1.5.0, 1.1.0; ` +
			`requested versions that are not upgrades: 2.0.0; upgradeConstraintPolicy SelfCertified allows these`},
		{name: "a downgrade", request: requesting(from("1.2.0"), "1.0.0"), want: `NoMatchingUpgrade: the upgrade graph of package "op" has no upgrade ` +
			`from the installed bundle "op.v1.2.0" to a version in the range "1.0.0"; available upgrades: 2.0.0, 1.3.0; requested versions that are ` +
			`not upgrades: 1.0.0; upgradeConstraintPolicy SelfCertified allows these`},
		{name: "a channel without a way to it", request: requesting(from("1.3.0"), "", "beta"), want: `NoMatchingUpgrade: the upgrade graph of package "op" ` +
			`has no upgrade from the installed bundle "op.v1.3.0" in channel "beta"; available upgrades: 2.0.0; requested versions that are not upgrades: ` +
			`1.5.0, 1.0.0; upgradeConstraintPolicy SelfCertified allows these`},
	}
	for i := range rows {
		rows[i].catalogs = catalogs(with("a", graph))
	}
	run(t, append(rows,
		resolution{name: "a skipRange never leads to an older version", catalogs: catalogs(with("a", pkg("stable: 1.0.0 range <9.0.0; 2.0.0"))),
			request: from("2.0.0"), want: "a stable 2.0.0"},
		resolution{name: "an invalid skipRange is ignored", catalogs: catalogs(with("a", pkg("stable: 1.0.0; 2.0.0 range nonsense"))),
			request: from("1.0.0"), want: "a stable 1.0.0"},
		resolution{name: "to a catalog with a higher priority", catalogs: catalogs(with("a", pkg("stable: 1.0.0; 1.1.0 replaces 1.0.0")),
			with("b/1", pkg("stable: 1.0.5 replaces 1.0.0"))), request: from("1.0.0"), want: "b stable 1.0.5"},
	))
}

func TestPrefersVersionsThatAreNotDeprecated(t *testing.T) {
	run(t, []resolution{
		{name: "bundles", catalogs: catalogs(with("a", pkg("stable: 1.0.0; 1.1.0; 2.0.0 deprecated -"))), want: "a stable 1.1.0"},
		{name: "bundles with the property", catalogs: catalogs(with("a", pkg("stable: 1.0.0; 2.0.0 property olm.deprecated"))), want: "a stable 1.0.0"},
		{name: "if there is a choice", catalogs: catalogs(with("a", pkg("stable: 1.0.0; 2.0.0 deprecated -"))), request: Request{Versions: "2.0.0"}, want: "a stable 2.0.0"},
		{name: "channels", catalogs: catalogs(with("a", pkg("alpha!: 3.0.0", "stable: 2.0.0"))), want: "a stable 2.0.0"},
		{name: "channels less than bundles", catalogs: catalogs(with("a", pkg("alpha!: 1.0.0", "stable: 2.0.0 deprecated -"))), want: "a alpha 1.0.0"},
		{name: "channels of the same bundle", catalogs: catalogs(with("a", pkg("alpha!: 2.0.0", "stable: 2.0.0"))), want: "a stable 2.0.0"},
		{name: "the installed version to a deprecated upgrade", catalogs: catalogs(with("a", pkg("stable: 1.0.0; 2.0.0 replaces 1.0.0 deprecated -"))),
			request: Request{Installed: installed("1.0.0")}, want: "a stable 1.0.0"},
		{name: "but never to downgrade", catalogs: catalogs(with("a", pkg("stable: 1.0.0; 2.0.0 deprecated -"))),
			request: Request{Installed: installed("2.0.0"), Policy: SelfCertified}, want: "a stable 2.0.0"},
		{name: "in the catalog with the highest priority", catalogs: catalogs(with("a/1", pkg("stable: 1.0.0 deprecated -")), with("b", pkg("stable: 1.0.0"))), want: "a stable 1.0.0"},
	})
}

func TestKeepsTheInstalledVersion(t *testing.T) {
	at := func(v, versions string) Request { return Request{Installed: installed(v), Versions: versions} }
	other := with("b", named("other", pkg("stable: 1.0.0")))
	run(t, []resolution{
		{name: "without catalogs", request: at("1.0.0", ""), want: "the installed version 1.0.0 is kept: no ClusterCatalog is available"},
		{name: "if its catalog no longer exists", catalogs: catalogs(other), request: at("1.0.0", "1.x"),
			want: `the installed version 1.0.0 is kept: package "op" was not found in ClusterCatalog "b"`},
		{name: "if no catalog is selected", catalogs: catalogs(other), request: at("1.0.0", ""), selector: "name=a",
			want: `the installed version 1.0.0 is kept: no available ClusterCatalog matches the selector "name=a"; available ClusterCatalogs: b`},
		{name: "while its catalog is not available", catalogs: catalogs(unavailable("a")), request: at("1.0.0", ""),
			want: `the installed version 1.0.0 is kept: package "op" was not found; not available: the content of ClusterCatalog "a"`},
		{name: "while a catalog with a higher priority is not available", catalogs: catalogs(unavailable("a/1"), with("b", pkg("stable: 1.0.0; 2.0.0 replaces 1.0.0"))),
			request: at("1.0.0", ""), want: `the installed version 1.0.0 is kept: package "op" is available in ClusterCatalog "b", but the content of ` +
				`ClusterCatalog "a", with a higher priority, is not available`},
		{name: "if the catalog no longer has it", catalogs: catalogs(with("a", pkg("stable: 3.0.0"))), request: at("1.0.0", ""),
			want: `the installed version 1.0.0 is kept: the upgrade graph of package "op" has no upgrade from the installed bundle "op.v1.0.0"; ` +
				`requested versions that are not upgrades: 3.0.0; upgradeConstraintPolicy SelfCertified allows these`},
		{name: "not if another version is requested", request: at("1.0.0", "2.x"), want: "NoCatalogSelected: no ClusterCatalog is available"},
		{name: "not if the requested channel does not exist", catalogs: catalogs(with("a", pkg("stable: 1.0.0"))),
			request: Request{Installed: installed("1.0.0"), Channels: []string{"beta"}}, want: `ChannelNotFound: package "op" has no channel "beta"; available channels: stable`},
	})
}

func TestReportsAlternatives(t *testing.T) {
	var many []*catalog.Package
	for i := range 20 {
		many = append(many, named(fmt.Sprintf("operator-%02d", i), pkg("stable: 1.0.0")))
	}
	var versions, channels []string
	for i := range 20 {
		versions = append(versions, fmt.Sprintf("1.%d.0", i))
		channels = append(channels, fmt.Sprintf("c%02d: 1.0.0", i))
	}
	run(t, []resolution{
		{name: "a misspelled package", catalogs: catalogs(with("a", pkg("stable: 1.0.0"), named("cert-manager", pkg("stable: 1.0.0")))),
			request: Request{Package: "certmanger"},
			want:    `PackageNotFound: package "certmanger" was not found in ClusterCatalog "a"; packages with similar names: cert-manager`},
		{name: "a part of the name", catalogs: catalogs(with("a", named("argocd-operator", pkg("stable: 1.0.0")))), request: Request{Package: "argocd"},
			want: `PackageNotFound: package "argocd" was not found in ClusterCatalog "a"; packages with similar names: argocd-operator`},
		{name: "not all of many packages", catalogs: catalogs(with("a", many...)), request: Request{Package: "operator"}, want: `PackageNotFound: package "operator" ` +
			`was not found in ClusterCatalog "a"; packages with similar names: operator-00, operator-01, operator-02, operator-03, operator-04`},
		{name: "the newest of many versions", catalogs: catalogs(with("a", pkg("stable: "+strings.Join(versions, "; ")))), request: Request{Versions: "2"},
			want: `NoMatchingVersion: package "op" has no version in the range "2"; newest versions: 1.19.0, 1.18.0, 1.17.0, 1.16.0, 1.15.0, 15 more`},
		{name: "not all of many channels", catalogs: catalogs(with("a", pkg(channels...))), request: Request{Channels: []string{"stable"}},
			want: `ChannelNotFound: package "op" has no channel "stable"; available channels: c00, c01, c02, c03, c04, 15 more`},
		{name: "an invalid range", catalogs: catalogs(with("a", pkg("stable: 1.0.0"))), request: Request{Versions: "latest"}, want: `InvalidVersionRange: version range ` +
			`"latest" is not valid; examples: "1.2.3", ">=1.2.0 <2.0.0", "~1.2", "^1.2.0", "1.x || >=2.1.0"`},
		{name: "a long range", request: Request{Versions: strings.Repeat("1", 1000)}, want: "InvalidVersionRange: the version range has 1000 bytes; at most 256 are allowed"},
		{name: "no valid version", catalogs: catalogs(with("a", pkg("stable: x"))), want: `NoMatchingVersion: package "op" has no bundle with a valid version`},
	})
}

func TestReportsDeprecations(t *testing.T) {
	p := pkg("stable!: 1.0.0 deprecated -; 2.0.0 replaces 1.0.0 property olm.deprecated", "beta!: 1.0.0", "ok: 2.0.0")
	p.Deprecation = "use another package"
	got, err := Resolve(catalogs(with("a", p)), Request{Package: "op", Channels: []string{"stable", "ok"}, Versions: "1.0.0"})
	require.NoError(t, err)
	want := Deprecations{Known: true, Package: "use another package", Channels: []Deprecation{{"stable", "channel stable is deprecated"}},
		HasBundle: true, Bundle: "bundle op.v1.0.0 is deprecated"}
	require.Equal(t, want, got.Deprecations)
	require.True(t, got.Deprecations.Any())

	got, err = Resolve(catalogs(with("a", p)), Request{Package: "op", Versions: "2.0.0"})
	require.NoError(t, err)
	require.Equal(t, "the catalog marks the bundle as deprecated", got.Deprecations.Bundle)
	require.Empty(t, got.Deprecations.Channels, "no channel was requested")

	got, err = Resolve(catalogs(with("a", p)), Request{Package: "op", Channels: []string{"stable"}, Versions: "9", Installed: installed("1.0.0")})
	require.Error(t, err)
	require.Equal(t, want, got.Deprecations, "those of the installed bundle if no bundle is selected")

	require.Equal(t, Deprecations{Known: true, Package: "use another package"}, DeprecationsOf(p, nil, "op.v0"))
	got, err = Resolve(catalogs(unavailable("a")), Request{Package: "op"})
	require.Error(t, err)
	require.Zero(t, got.Deprecations)
}

func TestSimilarNamesMatchTheEditDistance(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "a", 0}, {"ab", "b", 1}, {"b", "ab", 1}, {"abc", "axc", 1}, {"abcd", "badc", 3}, {"abc", "abcde", 2}, {"abcde", "abc", 2},
		{"abcdef", "abc", 3}, {"kitten", "sitting", 3}, {"operator", "opertaor", 2}, {"xabc", "abcx", 2},
	} {
		require.Equal(t, row.want, distance(row.a, row.b), "%s %s", row.a, row.b)
		require.Equal(t, row.want, distance(row.b, row.a), "%s %s", row.b, row.a)
	}
	require.Empty(t, similar("ab", []string{"xy", "a-long-name-with-ab"}))
}

// The order of catalogs and maps does not affect the result.
func TestResolvesTheSameEachTime(t *testing.T) {
	a, b := with("a", pkg(chain, "beta: 2.0.0; 3.0.0")), with("b", pkg(chain))
	want := outcome(Resolve(catalogs(a, b), Request{Package: "op"}))
	for range 20 {
		require.Equal(t, want, outcome(Resolve(catalogs(b, a), Request{Package: "op"})))
	}
}

// A catalog can have 100,000 channels, and a ClusterExtension can request 256.
func TestComparesALimitedNumberOfChannels(t *testing.T) {
	problem := func(n int, wanted ...string) string {
		p := pkg("zzz-near: 1.0.0")
		for i := range n {
			name := fmt.Sprintf("c%06d", i)
			p.Channels[name] = &catalog.Channel{Name: name}
		}
		_, err := Resolve(catalogs(with("a", p)), Request{Package: "op", Channels: wanted})
		return err.Error()
	}
	far := []string{"v1", "v2", "v3", "v4", "v5"}
	require.Contains(t, problem(10, "zzz-naer"), "available channels: zzz-near, c000000")
	require.Contains(t, problem(10, append(far[:4:4], "zzz-naer")...), "available channels: zzz-near, c000000")
	require.Contains(t, problem(maxCompared, "zzz-naer"), "available channels: c000000")
	require.Contains(t, problem(10, append(far, "zzz-naer")...), "available channels: c000000", "the message does not name the sixth")
	a, b := strings.Repeat("a", 253), strings.Repeat("b", 253)
	require.Zero(t, testing.AllocsPerRun(10, func() { distance(a, b) }))
}
