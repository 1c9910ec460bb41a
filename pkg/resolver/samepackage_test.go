package resolver

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/catalog"
)

// A requirement that a bundle meets itself needs no other bundle: neither another version of its package, with which it
// could not coexist, nor an operator that would be superfluous.
func TestABundleMeetsItsOwnRequirements(t *testing.T) {
	const old = "a.v1.0.0 stable label=x"
	named := func(pkg string) string {
		return fmt.Sprintf(`{"package":{"packageName":%q,"versionRange":">=1.0.0"}}`, pkg)
	}
	for _, row := range []struct {
		name     string
		lines    []string
		subjects []string
		want     []string
	}{
		{"its package", []string{"a.v2.0.0 stable needs=a:>=1.0.0"}, []string{"s ns/cat/a/stable"}, []string{"s:a.v2.0.0"}},
		{"which also has an older version", []string{old, "a.v2.0.0 stable replaces=a.v1.0.0 needs=a:>=1.0.0"}, []string{"s ns/cat/a/stable"}, []string{"s:a.v2.0.0"}},
		{"in an upgrade", []string{old, "a.v2.0.0 stable replaces=a.v1.0.0 needs=a:>=1.0.0"}, []string{"s ns/cat/a/stable installed=a.v1.0.0"}, []string{"s:a.v2.0.0<a.v1.0.0"}},
		{"when it is replaced", []string{"a.v1.0.0 stable needs=a:>=1.0.0", "a.v2.0.0 stable replaces=a.v1.0.0"}, []string{"s ns/cat/a/stable installed=a.v1.0.0"}, []string{"s:a.v2.0.0<a.v1.0.0"}},
		{"when only a plan exists", []string{"a.v2.0.0 stable needs=a:>=1.0.0"}, []string{"s ns/cat/a/stable planned=a.v2.0.0"}, nil},
		{"its package, as a constraint", []string{old, "a.v2.0.0 stable replaces=a.v1.0.0 constraint=" + named("a")}, []string{"s ns/cat/a/stable"}, []string{"s:a.v2.0.0"}},
		{"one of two packages", []string{old, "b.v1.0.0 stable", `a.v2.0.0 stable replaces=a.v1.0.0 constraint={"any":{"constraints":[` + named("b") + "," + named("a") + "]}}"},
			[]string{"s ns/cat/a/stable"}, []string{"s:a.v2.0.0"}},
		{"two packages, each of which is required", []string{old, "b.v1.0.0 stable", `a.v2.0.0 stable replaces=a.v1.0.0 constraint={"all":{"constraints":[` + named("b") + "," + named("a") + "]}}"},
			[]string{"s ns/cat/a/stable"}, []string{"s:a.v2.0.0 +b.v1.0.0"}},
		{"any operator except some", []string{`a.v2.0.0 stable constraint={"not":{"constraints":[` + named("b") + "]}}", "c.v1.0.0 stable"}, []string{"s ns/cat/a/stable"}, []string{"s:a.v2.0.0"}},
		{"its label", []string{old, "a.v2.0.0 stable replaces=a.v1.0.0 label=x wants=x", "b.v1.0.0 stable label=x"}, []string{"s ns/cat/a/stable"}, []string{"s:a.v2.0.0"}},
		{"a CEL rule", []string{old, `a.v2.0.0 stable replaces=a.v1.0.0 label=x constraint={"cel":{"rule":"properties.exists(p,p.type=='olm.label'&&p.value.label=='x')"}}`},
			[]string{"s ns/cat/a/stable"}, []string{"s:a.v2.0.0"}},
		{"a dependency, too", []string{"a.v1.0.0 stable needs=b:>=1.0.0", "b.v1.0.0 stable", "b.v2.0.0 stable replaces=b.v1.0.0 needs=b:>=1.0.0"}, []string{"s ns/cat/a/stable"}, []string{"s:a.v1.0.0 +b.v2.0.0"}},
		{"but not with a version outside the range", []string{old, "a.v2.0.0 stable replaces=a.v1.0.0 needs=a:<2.0.0"}, []string{"s ns/cat/a/stable/a.v2.0.0"}, []string{"!s"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := world(graph("ns/cat", row.lines...)).resolve(subjects(row.subjects...))
			require.Equal(t, row.want, format(got), "%v", got.Problems)
		})
	}
}

// As in OLM, a namespace has one version of a package, even if one version requires what only another one provides. The
// steps of "a kind moves to another package" are a scenario of OLM's own tests.
func TestNoDependencyIsMetByAnotherVersionOfTheSamePackage(t *testing.T) {
	const need = "a.v2.0.0 main api=D"
	moves := []string{"a.v1.0.0 stable owns=D", "a.v2.0.0 stable replaces=a.v1.0.0 api=D", "b.v1.0.0 stable owns=E api=D"}
	for _, row := range []struct {
		name     string
		lines    []string
		subjects []string
		want     []string
	}{
		{"in another channel", []string{need, "a.v1.0.0 dep owns=D"}, []string{"s ns/cat/a/main"}, []string{"!s"}},
		{"that has a Subscription", []string{need, "a.v1.0.0 dep owns=D"}, []string{"d ns/cat/a/dep", "s ns/cat/a/main"}, []string{"!d", "!s"}},
		{"that is installed", []string{need, "a.v1.0.0 dep owns=D"}, []string{"d ns/cat/a/dep installed=a.v1.0.0", "s ns/cat/a/main"}, []string{"!s"}},
		{"that is installed and can be upgraded", []string{need, "a.v1.0.0 dep owns=D", "a.v1.1.0 dep owns=D replaces=a.v1.0.0"},
			[]string{"d ns/cat/a/dep installed=a.v1.0.0", "s ns/cat/a/main"}, []string{"d:a.v1.1.0<a.v1.0.0", "!s"}},
		{"that requires the first one", []string{need + " owns=E", "a.v1.0.0 dep owns=D api=E"}, []string{"s ns/cat/a/main"}, []string{"!s"}},
		{"another package is used instead", []string{need, "a.v1.0.0 dep owns=D", "z.v1.0.0 stable owns=D"}, []string{"s ns/cat/a/main"}, []string{"s:a.v2.0.0 +z.v1.0.0"}},
		{"an older version is installed instead", []string{"a.v1.0.0 main owns=D", "a.v2.0.0 main replaces=a.v1.0.0 api=D"}, []string{"s ns/cat/a/main"}, []string{"s:a.v1.0.0"}},
		{"unless a Subscription starts with the newer one", []string{"a.v1.0.0 main owns=D", "a.v2.0.0 main replaces=a.v1.0.0 api=D"}, []string{"s ns/cat/a/main/a.v2.0.0"}, []string{"!s"}},
		{"nor by a constraint", []string{"a.v1.0.0 main owns=D", `a.v2.0.0 main replaces=a.v1.0.0 constraint={"gvk":{"group":"x","version":"v1","kind":"D"}}`}, []string{"s ns/cat/a/main/a.v2.0.0"}, []string{"!s"}},
		{"nor by a package range", []string{"a.v1.0.0 dep", "a.v2.0.0 main needs=a:<2.0.0"}, []string{"s ns/cat/a/main"}, []string{"!s"}},
		{"nor by the version that it replaces", []string{"a.v1.0.0 main owns=D", "a.v2.0.0 main replaces=a.v1.0.0 api=D"}, []string{"s ns/cat/a/main installed=a.v1.0.0"}, nil},
		{"a kind moves to another package: not yet", moves, []string{"a ns/cat/a/stable installed=a.v1.0.0", "b ns/cat/b/stable installed=b.v1.0.0"}, nil},
		{"a kind moves to another package: together", append(moves, "b.v2.0.0 stable replaces=b.v1.0.0 owns=E owns=D"),
			[]string{"a ns/cat/a/stable installed=a.v1.0.0", "b ns/cat/b/stable installed=b.v1.0.0"}, []string{"a:a.v2.0.0<a.v1.0.0 b:b.v2.0.0<b.v1.0.0"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := world(graph("ns/cat", row.lines...)).resolve(subjects(row.subjects...))
			require.Equal(t, row.want, format(got), "%v", got.Problems)
		})
	}
}

func TestExplainsWhyAPackageHasOneVersion(t *testing.T) {
	lines := []string{"a.v1.0.0 dep owns=D", "a.v2.0.0 main api=D", "b.v1.0.0 stable"}
	got := world(graph("ns/cat", lines...)).resolve(subjects("s ns/cat/a/main"))
	require.Contains(t, got.Problems["s"].Message, "bundle a.v2.0.0 requires an operator providing an API with group: x, version: v1, kind: D")
	require.Contains(t, got.Problems["s"].Message, `Bundle "a.v2.0.0" requires another version of its own package "a", but a namespace can have only one version of a package: `+
		"choose a version without this requirement, or add a catalog in which another package meets it")

	ns := subjects("s ns/cat/b/stable")
	ns.Others = append(ns.Others, csvNamed("b.v0.1.0", catalog.Property{Type: "olm.package", Value: json.RawMessage(`{"packageName": "b", "version": "0.1.0"}`)}))
	got = world(graph("ns/cat", lines...)).resolve(ns)
	require.Contains(t, got.Problems["s"].Message, "clusterserviceversion b.v0.1.0 exists and is not referenced by a subscription")
	require.Contains(t, got.Problems["s"].Message, `ClusterServiceVersion "b.v0.1.0" of package "b" belongs to no subscription, and a namespace can have only one version of a package: `+
		"delete the ClusterServiceVersion, or delete subscription s")
}
