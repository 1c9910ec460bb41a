package corpus

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/resolver"
)

// graph is a catalog of packages whose upgrades are tested.
type graph struct {
	name string
	// dir is the directory with the catalog's files.
	dir string
	*catalog.Snapshot
	in resolver.Input
}

// openGraph reads a directory of bundles or of a file-based catalog.
func openGraph(t *testing.T, name, dir string) *graph {
	t.Helper()
	s, err := fbc.LoadDirectory(t.Context(), os.DirFS(dir))
	require.NoError(t, err)
	s.Key = types.NamespacedName{Namespace: "walk", Name: name}
	store := &catalog.Store{}
	store.Put(s)
	return &graph{name: name, dir: dir, Snapshot: s, in: resolver.Input{
		Namespace: s.Key.Namespace, Catalogs: store, Visible: []types.NamespacedName{s.Key}, Indexes: &resolver.Indexes{},
	}}
}

// asBundles returns the graph as defined by the packages' own bundles.
func asBundles(t *testing.T, root string, packages []string) *graph {
	t.Helper()
	dir := t.TempDir()
	for _, pkg := range packages {
		require.NoError(t, os.CopyFS(filepath.Join(dir, pkg), os.DirFS(filepath.Join(root, pkg))))
	}
	return openGraph(t, "bundles", dir)
}

// asPublished returns the graph that a published catalog defines for a package's bundles.
func asPublished(t *testing.T, root, version, pkg string) *graph {
	t.Helper()
	bundles, err := fbc.FromBundles(t.Context(), os.DirFS(filepath.Join(root, pkg)))
	require.NoError(t, err)
	published, err := declcfg.LoadFS(t.Context(), os.DirFS(filepath.Join(root, "..", "catalogs", version, pkg)))
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name string, cfg declcfg.DeclarativeConfig) {
		f, err := os.Create(filepath.Join(dir, name+".json"))
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, declcfg.WriteJSON(cfg, f))
	}
	write("package", declcfg.DeclarativeConfig{Packages: published.Packages, Channels: published.Channels})
	for _, b := range published.Bundles {
		i := slices.IndexFunc(bundles.Bundles, func(have declcfg.Bundle) bool { return have.Name == b.Name })
		require.GreaterOrEqual(t, i, 0, "the corpus has no bundle %s", b.Name)
		write(b.Name, declcfg.DeclarativeConfig{Bundles: bundles.Bundles[i : i+1]})
	}
	return openGraph(t, version, dir)
}

// edge is an upgrade from one version of a package to another in a channel.
type edge struct {
	graph         *graph
	pkg, from, to string
	// channels are the channels that contain the edge. channel is one of them, in which a Subscription follows the edge;
	// "" if there is no such channel.
	channels []string
	channel  string
	// why is the reason that the edge is not tested; "" if it is tested.
	why string
}

func (e *edge) String() string {
	return fmt.Sprintf("%s -> %s (%s: %s)", e.from, e.to, e.graph.name, strings.Join(e.channels, ", "))
}

// edges returns all edges of a package, as defined by replaces, skips and skipRange in all channels.
func (g *graph) edges(pkg string) []*edge {
	p := g.Packages[pkg]
	all := map[[2]string]*edge{}
	add := func(from, to, channel string) {
		key := [2]string{from, to}
		if all[key] == nil {
			all[key] = &edge{graph: g, pkg: pkg, from: from, to: to}
		}
		if e := all[key]; !slices.Contains(e.channels, channel) {
			e.channels = append(e.channels, channel)
		}
	}
	for _, channel := range p.ChannelNames() {
		for _, e := range p.Channels[channel].Entries {
			for _, older := range append([]string{e.Replaces}, e.Skips...) {
				if older != "" && older != e.Name {
					add(older, e.Name, channel)
				}
			}
			for older := range p.Bundles {
				if e.SkipRange != "" && inRange(p, e, older) {
					add(older, e.Name, channel)
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *edge) int {
		return cmp.Or(byVersion(p, a.from, b.from), byVersion(p, a.to, b.to))
	})
}

func inRange(p *catalog.Package, e catalog.Entry, older string) bool {
	from, to := semver.MustParse(p.Bundles[older].Version), semver.MustParse(p.Bundles[e.Name].Version)
	return semver.MustParseRange(e.SkipRange)(from) && from.LT(to)
}

func byVersion(p *catalog.Package, a, b string) int {
	if p.Bundles[a] == nil || p.Bundles[b] == nil {
		return cmp.Compare(a, b)
	}
	return semver.MustParse(p.Bundles[a].Version).Compare(semver.MustParse(p.Bundles[b].Version))
}

// classify sets the channel in which the edge is tested, or the reason that it is not tested.
func (e *edge) classify(unserved map[string]string) {
	for _, end := range []string{e.from, e.to} {
		switch {
		case e.graph.Packages[e.pkg].Bundles[end] == nil:
			e.why = fmt.Sprintf("%s is not published", end)
			return
		case unserved[end] != "":
			e.why = fmt.Sprintf("%s cannot be installed: %s", end, unserved[end])
			return
		}
	}
	var instead []string
	for _, channel := range e.channels {
		got := e.successor(channel)
		if got == e.to {
			e.channel = channel
			return
		}
		instead = append(instead, fmt.Sprintf("channel %s selects %q instead", channel, got))
	}
	e.why = "it was not selected: " + strings.Join(instead, ", ")
}

// successor returns the version to which the resolver upgrades the older version in a channel. It returns "" if there
// is no upgrade, and the text of the error if the resolution fails.
func (e *edge) successor(channel string) string {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: e.graph.Key.Namespace, Name: e.from}}
	answer, err := e.graph.in.Resolve(context.Background(), resolver.Full(), resolver.Namespace{Subjects: []resolver.Subject{{
		Installed: csv,
		Subscription: &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: e.graph.Key.Namespace, Name: e.pkg, UID: "walker"},
			Spec: &operatorsv1alpha1.SubscriptionSpec{
				CatalogSource: e.graph.Key.Name, CatalogSourceNamespace: e.graph.Key.Namespace, Package: e.pkg, Channel: channel,
			}},
	}}})
	if err != nil {
		return err.Error()
	}
	for _, set := range answer.Sets {
		for _, c := range set {
			if c.Replaces == e.from {
				return c.Bundle
			}
		}
	}
	return ""
}

// path is a starting version and a sequence of edges from it.
type path struct {
	graph *graph
	pkg   string
	// start is the version to install first, from channel.
	start, channel string
	edges          []*edge
}

// paths returns paths that cover each edge once.
func paths(edges []*edge) []*path {
	var out []*path
	walked := map[*edge]bool{}
	next := func(g *graph, from string) *edge {
		i := slices.IndexFunc(edges, func(e *edge) bool {
			return !walked[e] && e.channel != "" && (g == nil || e.graph == g && e.from == from)
		})
		if i < 0 {
			return nil
		}
		walked[edges[i]] = true
		return edges[i]
	}
	for e := next(nil, ""); e != nil; e = next(nil, "") {
		p := &path{graph: e.graph, pkg: e.pkg, start: e.from, channel: channelOf(e)}
		for ; e != nil; e = next(e.graph, e.to) {
			p.edges = append(p.edges, e)
		}
		out = append(out, p)
	}
	return out
}

// channelOf returns a channel from which the version at the start of an edge can be installed.
func channelOf(e *edge) string {
	p := e.graph.Packages[e.pkg]
	for _, channel := range p.ChannelNames() {
		if _, ok := p.Channels[channel].Entries[e.from]; ok {
			return channel
		}
	}
	return ""
}

// next returns the version that follows the installed one on the path, and its channel. If installed is "", it returns
// the start; at the end of the path, it returns "".
func (p *path) next(installed string) (name, channel string) {
	if installed == "" {
		return p.start, p.channel
	}
	for _, e := range p.edges {
		if e.from == installed {
			return e.to, e.channel
		}
	}
	return "", ""
}

func (p *path) end() string {
	if len(p.edges) == 0 {
		return p.start
	}
	return p.edges[len(p.edges)-1].to
}
