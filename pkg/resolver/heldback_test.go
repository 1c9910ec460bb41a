package resolver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestExplainsWhyAnUpgradeIsHeldBack(t *testing.T) {
	sick := &catalog.Snapshot{Key: types.NamespacedName{Namespace: "ns", Name: "sick"}}
	for _, row := range []struct {
		name     string
		releases []string
		subjects []string
		catalogs []*catalog.Snapshot
		// reason and want are the expected Reason and Message for Subscription s; "" if there is no Problem.
		reason, want string
	}{
		{name: "nothing is newer", releases: []string{"a.v1.0.0 c"}, subjects: []string{"s ns/cat/a/c installed=a.v1.0.0"}},
		{name: "an upgrade is possible", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0"}, subjects: []string{"s ns/cat/a/c installed=a.v1.0.0"}},
		{name: "the next step is possible", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0", "a.v3.0.0 c replaces=a.v2.0.0 needs=z:>=1.0.0"},
			subjects: []string{"s ns/cat/a/c installed=a.v1.0.0"}},
		{name: "the installed version must not be replaced now", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0"},
			subjects: []string{"s ns/cat/a/c installed=a.v1.0.0 keep"}},
		{name: "a plan is in progress", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0"},
			subjects: []string{"s ns/cat/a/c installed=a.v1.0.0 planned=a.v2.0.0"}},
		{name: "no upgrade in the channel", releases: []string{"a.v2.0.0 c", "a.v3.0.0 c replaces=a.v2.0.0"}, subjects: []string{"s ns/cat/a/c installed=a.v1.0.0"},
			reason: NoUpgradeInChannel, want: "no bundle in channel c, whose head is a.v3.0.0, replaces a.v1.0.0"},
		{name: "deprecated", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0 deprecated"}, subjects: []string{"s ns/cat/a/c installed=a.v1.0.0"},
			reason: NoUpgradeInChannel, want: "a.v2.0.0 of channel c is deprecated and cannot be installed; a.v1.0.0 stays installed"},
		{name: "a requirement that no catalog provides", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0 needs=b:>=1.0.0"}, subjects: []string{"s ns/cat/a/c installed=a.v1.0.0"},
			reason: UpgradeClashes, want: "a.v2.0.0 of channel c cannot replace a.v1.0.0: bundle a.v2.0.0 requires an operator with package: b and with version in range: >=1.0.0, " +
				"which no visible catalog provides"},
		{name: "a requirement that an unavailable catalog may provide", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0 needs=b:>=1.0.0"}, subjects: []string{"s ns/cat/a/c installed=a.v1.0.0"},
			catalogs: []*catalog.Snapshot{sick}, reason: UpgradeClashes,
			want: "a.v2.0.0 of channel c cannot replace a.v1.0.0: bundle a.v2.0.0 requires an operator with package: b and with version in range: >=1.0.0, " +
				"which no visible catalog provides (the content of catalogsource ns/sick is not available)"},
		{name: "another version requires the installed one", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0", "b.v1.0.0 c needs=a:<2.0.0"},
			subjects: []string{"s ns/cat/a/c installed=a.v1.0.0", "t ns/cat/b/c installed=b.v1.0.0"}, reason: UpgradeClashes,
			want: "a.v2.0.0 of channel c cannot replace a.v1.0.0: bundle b.v1.0.0 requires an operator with package: a and with version in range: <2.0.0"},
		{name: "another Subscription to the package", releases: []string{"a.v1.0.0 c,d", "a.v2.0.0 c replaces=a.v1.0.0"},
			subjects: []string{"s ns/cat/a/c installed=a.v1.0.0", "t ns/cat/a/d installed=a.v1.0.0"}, reason: UpgradeClashes,
			want: "a.v2.0.0 of channel c cannot replace a.v1.0.0: subscription t has a.v1.0.0"},
		{name: "another owner of the kind", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0 owns=K", "b.v1.0.0 c owns=K"},
			subjects: []string{"s ns/cat/a/c installed=a.v1.0.0", "t ns/cat/b/c installed=b.v1.0.0"}, reason: UpgradeClashes,
			want: "a.v2.0.0 of channel c cannot replace a.v1.0.0: a.v2.0.0 and b.v1.0.0 provide K (x/v1)"},
		{name: "another upgrade takes precedence", releases: []string{"a.v1.0.0 c", "a.v2.0.0 c replaces=a.v1.0.0 owns=K", "b.v1.0.0 c", "b.v2.0.0 c replaces=b.v1.0.0 owns=K"},
			subjects: []string{"s ns/cat/a/c installed=a.v1.0.0", "r ns/cat/b/c installed=b.v1.0.0"}, reason: UpgradeClashes,
			want: "a.v2.0.0 of channel c cannot replace a.v1.0.0: b.v2.0.0 and a.v2.0.0 provide K (x/v1)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := world(append(row.catalogs, graph("ns/cat", row.releases...))...)
			got := in.resolve(subjects(row.subjects...))
			require.Empty(t, got.Problems)
			held := got.HeldBack["s"]
			if row.want == "" {
				require.Nil(t, held)
				return
			}
			require.NotNil(t, held)
			require.Equal(t, row.reason, held.Reason)
			require.Equal(t, row.want, held.Message)
			for range 20 {
				require.Equal(t, got.HeldBack, in.resolve(subjects(row.subjects...)).HeldBack, "the result is deterministic")
			}
		})
	}
}

// The CRD of a kind stays in the cluster when its last owner is replaced by a version that does not own it. Therefore,
// the owner is not replaced just because the cluster serves the kind.
func TestKeepsTheLastOwnerOfARequiredKind(t *testing.T) {
	releases := []string{
		"a.v1.0.0 c owns=K", "a.v2.0.0 c replaces=a.v1.0.0", "b.v1.0.0 c api=K", "b.v2.0.0 d replaces=b.v1.0.0", "d.v1.0.0 c owns=K",
		"e.v1.0.0 c needs=a:>=2.0.0",
	}
	const (
		owner    = "s ns/cat/a/c installed=a.v1.0.0"
		requires = "bundle b.v1.0.0 requires an operator providing an API with group: x, version: v1, kind: K"
		held     = "a.v2.0.0 of channel c cannot replace a.v1.0.0: " + requires
	)
	for _, row := range []struct {
		name     string
		subjects []string
		others   []*operatorsv1alpha1.ClusterServiceVersion
		// without omits the releases of these packages.
		without string
		want    []string
		// held is the reason why the owner is held back; problem is the problem that Subscription e reports.
		held, problem string
	}{
		{name: "that nothing requires", subjects: []string{owner}, want: []string{"s:a.v2.0.0<a.v1.0.0"}},
		{name: "that an installed version requires", subjects: []string{owner, "t ns/cat/b/c installed=b.v1.0.0"}, without: "d", held: held},
		{name: "that a version without a Subscription requires", subjects: []string{owner}, without: "d",
			others: []*operatorsv1alpha1.ClusterServiceVersion{csvNamed("b.v1.0.0", propertyOf("api", "K"))}, held: held},
		{name: "that a new install requires", subjects: []string{owner, "t ns/cat/b/c"}, without: "d", want: []string{"t:b.v1.0.0"}, held: held},
		{name: "that another installed version owns too", subjects: []string{owner, "t ns/cat/b/c installed=b.v1.0.0", "u ns/cat/d/c installed=d.v1.0.0"},
			want: []string{"s:a.v2.0.0<a.v1.0.0"}},
		{name: "that a catalog offers", subjects: []string{owner, "t ns/cat/b/c installed=b.v1.0.0"}, want: []string{"s:a.v2.0.0<a.v1.0.0 +d.v1.0.0"}},
		{name: "until the new version no longer requires it", subjects: []string{owner, "t ns/cat/b/d installed=b.v1.0.0"}, without: "d",
			want: []string{"s:a.v2.0.0<a.v1.0.0 t:b.v2.0.0<b.v1.0.0"}},
		{name: "although the new version is required", subjects: []string{owner, "t ns/cat/b/c installed=b.v1.0.0", "e ns/cat/e/c"}, without: "d",
			want: []string{"!e"}, held: held, problem: requires},
		{name: "unless no installed version owned it", subjects: []string{"s ns/cat/a/c installed=a.v2.0.0", "t ns/cat/b/c"}, without: "d", want: []string{"t:b.v1.0.0"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := world(graph("ns/cat", slices.DeleteFunc(slices.Clone(releases), func(line string) bool {
				return row.without != "" && strings.HasPrefix(line, row.without)
			})...))
			in.Serves = func(schema.GroupVersionKind) bool { return true }
			ns := subjects(row.subjects...)
			ns.Others = row.others
			got := in.resolve(ns)
			require.Equal(t, row.want, format(got), "%v", got.Problems)
			if row.problem != "" {
				require.Equal(t, ConstraintsNotSatisfiable, got.Problems["e"].Reason)
				require.Contains(t, got.Problems["e"].Message, row.problem)
			}
			if row.held == "" {
				require.Nil(t, got.HeldBack["s"])
				return
			}
			require.Equal(t, &Problem{Reason: UpgradeClashes, Message: row.held}, got.HeldBack["s"])
		})
	}
}

// The solver runs to explain only a few of the held-back upgrades.
func TestLimitsTheExplanationsOfHeldBackUpgrades(t *testing.T) {
	var releases, asked []string
	for i := range maxExplained + 5 {
		pkg := fmt.Sprintf("a%02d", i)
		releases = append(releases, pkg+".v1.0.0 c", pkg+".v2.0.0 c replaces="+pkg+".v1.0.0 needs=z:>=1.0.0")
		asked = append(asked, fmt.Sprintf("%s ns/cat/%s/c installed=%s.v1.0.0", pkg, pkg, pkg))
	}
	got := world(graph("ns/cat", releases...)).resolve(subjects(asked...))
	require.Len(t, got.HeldBack, len(asked))
	require.Contains(t, got.HeldBack["a00"].Message, "no visible catalog provides")
	require.Equal(t, "a09.v2.0.0 of channel c cannot replace a09.v1.0.0: other requirements in the namespace take precedence", got.HeldBack["a09"].Message)
}

// Properties recorded at installation take precedence over the catalog's current content, and remain valid without the
// catalog.
func TestUsesThePropertiesRecordedAtInstallation(t *testing.T) {
	before := graph("ns/cat", "a.v1.0.0 c needs=b:<2.0.0 owns=K").Packages["a"].Bundles["a.v1.0.0"]
	now := []string{"a.v1.0.0 c", "b.v1.0.0 c", "b.v2.0.0 c replaces=b.v1.0.0", "d.v1.0.0 c owns=K"}
	for name, row := range map[string]struct {
		noted    bool
		catalogs []*catalog.Snapshot
		// upgraded means that b is upgraded; taken means that d becomes the owner of a's kind.
		upgraded, taken bool
	}{
		"recorded, and the catalog differs":             {noted: true, catalogs: []*catalog.Snapshot{graph("ns/cat", now...)}},
		"not recorded, but in the catalog":              {catalogs: []*catalog.Snapshot{graph("ns/cat", now...)}, upgraded: true, taken: true},
		"recorded, and the catalog does not contain it": {noted: true, catalogs: []*catalog.Snapshot{graph("ns/cat", now[1:]...)}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := subjects("a ns/gone/a/c installed=a.v1.0.0", "b ns/cat/b/c installed=b.v1.0.0", "d ns/cat/d/c")
			if len(row.catalogs[0].Packages) == 3 {
				ns.Subjects[0].Subscription.Spec.CatalogSource = "cat"
			}
			if row.noted {
				ns.Subjects[0].Installed.Annotations = map[string]string{names.AnnotationProperties: catalog.PropertiesText(before.Properties)}
			}
			got := world(row.catalogs...).resolve(ns)
			require.Equal(t, row.upgraded, got.HeldBack["b"] == nil, "%v", got.HeldBack)
			require.Equal(t, row.taken, got.Problems["d"] == nil, "%v", got.Problems)
		})
	}
}
