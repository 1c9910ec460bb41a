package resolver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// anyContent is a reader that returns a ClusterServiceVersion for every name.
type anyContent struct{}

func (anyContent) Content(_ context.Context, _, _, name string) (*catalog.Content, error) {
	return &catalog.Content{Manifests: [][]byte{[]byte(csvText(name))}}, nil
}

// contents is a reader that returns bundles by name.
type contents map[string]string

func (c contents) Content(_ context.Context, _, _, name string) (*catalog.Content, error) {
	text, ok := c[name]
	if !ok {
		return nil, catalog.ErrNoContent
	}
	return &catalog.Content{Manifests: [][]byte{[]byte(text)}}, nil
}

// failing is a reader whose registry is temporarily unavailable.
type failing struct{}

func (failing) Content(context.Context, string, string, string) (*catalog.Content, error) {
	return nil, errors.New("connection refused")
}

// csvText returns a CSV that requests permissions on Pods for a ServiceAccount "op".
func csvText(name string) string {
	return `{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion", "metadata": {"name": "` + name + `"}, "spec": {"install": {"strategy": "deployment", "spec": {
		"deployments": [{"name": "op"}], "permissions": [{"serviceAccountName": "op", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]}}}}`
}

// published returns a catalog with package "op": a stable channel v1 <- v2, a channel with two heads, and a channel whose
// entry has no bundle. v3 has only an image, and v4 contains the wrong CSV.
func published(namespace string) *catalog.Snapshot {
	channel := func(name string, entries ...catalog.Entry) *catalog.Channel {
		c := &catalog.Channel{Name: name, Entries: map[string]catalog.Entry{}}
		for _, e := range entries {
			c.Entries[e.Name] = e
		}
		return c
	}
	pkg := &catalog.Package{Name: "op", DefaultChannel: "stable", Bundles: map[string]*catalog.Bundle{}, Channels: map[string]*catalog.Channel{
		"stable": channel("stable", catalog.Entry{Name: "op.v1"}, catalog.Entry{Name: "op.v2", Replaces: "op.v1"}),
		"split":  channel("split", catalog.Entry{Name: "op.v1"}, catalog.Entry{Name: "op.v2"}),
		"broken": channel("broken", catalog.Entry{Name: "op.v9"}),
		"image":  channel("image", catalog.Entry{Name: "op.v3"}),
		"wrong":  channel("wrong", catalog.Entry{Name: "op.v4"}),
	}}
	for _, name := range []string{"op.v1", "op.v2", "op.v3", "op.v4"} {
		pkg.Bundles[name] = &catalog.Bundle{Name: name, Package: "op"}
	}
	undecided := &catalog.Package{Name: "undecided", Channels: map[string]*catalog.Channel{"a": channel("a"), "b": channel("b")}}
	return &catalog.Snapshot{
		Key:      types.NamespacedName{Namespace: namespace, Name: "cat"},
		Packages: map[string]*catalog.Package{"op": pkg, "undecided": undecided},
		Reader:   contents{"op.v1": csvText("op.v1"), "op.v2": csvText("op.v2"), "op.v4": csvText("other")},
	}
}

// input returns the Input of namespace "ns", with catalogs in "ns", "global" and "foreign".
func input() Input {
	store := &catalog.Store{}
	for _, namespace := range []string{"ns", "global", "foreign"} {
		store.Put(published(namespace))
	}
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	return Input{
		Namespace: "ns", GlobalCatalogNamespace: "global", Catalogs: store, Targets: []string{"ns"}, Indexes: &Indexes{},
		Visible: []types.NamespacedName{{Namespace: "ns", Name: "cat"}, {Namespace: "global", Name: "cat"}, {Namespace: "foreign", Name: "cat"}},
		Account: scoped.Account{Namespace: "ns", Name: "installer"},
		RBAC: rbac.Listers{
			Roles:               rbacv1listers.NewRoleLister(indexer()),
			RoleBindings:        rbacv1listers.NewRoleBindingLister(indexer()),
			ClusterRoles:        rbacv1listers.NewClusterRoleLister(indexer()),
			ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(indexer()),
		},
	}
}

// subscription parses "<catalog namespace>/<catalog>/<package>/<channel>/<startingCSV>".
func subscription(text string) *operatorsv1alpha1.Subscription {
	f := strings.Split(text, "/")
	return &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sub", UID: "sub-uid"},
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSourceNamespace: f[0], CatalogSource: f[1], Package: f[2], Channel: f[3], StartingCSV: f[4],
		},
	}
}

// choose resolves one Subscription with nothing installed.
func choose(in Input, text string) ([]Choice, *Problem) {
	sub := subscription(text)
	got := in.resolve(Namespace{Subjects: []Subject{{Subscription: sub}}})
	if len(got.Sets) == 0 {
		return nil, got.Problems[sub.UID]
	}
	return got.Sets[0], nil
}

func chosen(t *testing.T, text string) []Choice {
	t.Helper()
	choices, problem := choose(input(), text)
	require.Nil(t, problem)
	return choices
}

func TestChoosesABundle(t *testing.T) {
	for _, row := range []struct{ name, sub, channel, bundle string }{
		{"the head of its channel", "ns/cat/op/stable/", "stable", "op.v2"},
		{"the head of the default channel if none is specified", "ns/cat/op//", "stable", "op.v2"},
		{"from a global catalog", "global/cat/op/stable/", "stable", "op.v2"},
		{"startingCSV", "ns/cat/op/stable/op.v1", "stable", "op.v1"},
		{"startingCSV in a channel with two heads", "ns/cat/op/split/op.v1", "split", "op.v1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			plan, steps, _, err := ResolveSteps(t.Context(), input(), chosen(t, row.sub))
			require.NoError(t, err)
			require.Len(t, plan.Pins, 1)
			pin := plan.Pins[0]
			require.Equal(t, row.channel, pin.Channel)
			require.Equal(t, row.bundle, pin.Bundle)
			require.Equal(t, types.UID("sub-uid"), pin.SubscriptionUID)
			require.Equal(t, row.bundle, steps[0].Object.GetName())
		})
	}
}

func TestReportsProblemsOfSubscriptions(t *testing.T) {
	const unsatisfiable = "constraints not satisfiable: "
	for _, row := range []struct{ name, sub, reason, message string }{
		{"a catalog of another namespace", "foreign/cat/op/stable/", ConstraintsNotSatisfiable,
			unsatisfiable + "catalog cat in namespace foreign is not visible from namespace ns: only catalogs in that namespace and in namespace global are, subscription sub exists"},
		{"a missing catalog", "ns/dog/op/stable/", ErrorPreventedResolution, "error using catalogsource ns/dog: its content is not available"},
		{"an unknown package", "ns/cat/po/stable/", ConstraintsNotSatisfiable,
			unsatisfiable + "no operators found in package po in the catalog referenced by subscription sub, subscription sub exists"},
		{"an unknown channel", "ns/cat/op/beta/", ConstraintsNotSatisfiable,
			unsatisfiable + "no operators found in channel beta of package op in the catalog referenced by subscription sub (available channels: stable, broken, image and 2 more), subscription sub exists"},
		{"no channel and no default", "ns/cat/undecided//", ConstraintsNotSatisfiable,
			unsatisfiable + "package undecided in the catalog referenced by subscription sub has no default channel: set spec.channel (available channels: a, b), subscription sub exists"},
		{"a channel with two heads", "ns/cat/op/split/", ConstraintsNotSatisfiable,
			unsatisfiable + `package op: channel "split" has 2 heads: ["op.v1" "op.v2"], subscription sub exists`},
		{"an unknown version", "ns/cat/op/stable/op.v7", ConstraintsNotSatisfiable,
			unsatisfiable + "no operators found with name op.v7 in channel stable of package op in the catalog referenced by subscription sub, subscription sub exists"},
		{"a version of another channel", "ns/cat/op/image/op.v1", ConstraintsNotSatisfiable, unsatisfiable + "no operators found with name op.v1 in channel image"},
		{"an entry without a bundle", "ns/cat/op/broken/", ConstraintsNotSatisfiable, unsatisfiable + "no operators found with name op.v9"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, problem := choose(input(), row.sub)
			require.NotNil(t, problem)
			require.Equal(t, row.reason, problem.Reason)
			require.Contains(t, problem.Message, row.message)
		})
	}
}

func TestRefusesABundleWithTheWrongCSV(t *testing.T) {
	_, _, _, err := ResolveSteps(t.Context(), input(), chosen(t, "ns/cat/op/image/"))
	require.ErrorIs(t, err, ErrContent)
	require.ErrorIs(t, err, catalog.ErrNoContent)

	_, _, _, err = ResolveSteps(t.Context(), input(), chosen(t, "ns/cat/op/wrong/"))
	require.EqualError(t, err, `bundle "op.v4": its ClusterServiceVersion is named "other"`)
}

func TestReportsTheChannelHeadRegardlessOfStartingCSV(t *testing.T) {
	for text, want := range map[string]string{"ns/cat/op/stable/op.v1": "op.v2", "ns/cat/op/split/op.v1": "", "foreign/cat/op/stable/": ""} {
		sub := subscription(text)
		got := input().resolve(Namespace{Subjects: []Subject{{Subscription: sub}}})
		require.Equal(t, want, got.Heads[sub.UID])
	}
}

func resolved(t *testing.T) Plan {
	t.Helper()
	plan, _, _, err := ResolveSteps(t.Context(), input(), chosen(t, "ns/cat/op/stable/"))
	require.NoError(t, err)
	return plan
}

func TestPlanNameCommitsToItsPins(t *testing.T) {
	base := resolved(t)
	name := base.Name()
	require.Regexp(t, "^install-[a-z2-7]{32}$", name, "with 80 bits, a tenant could create two plans with the same name")
	require.Equal(t, name, resolved(t).Name())

	seen := map[string]string{name: "base"}
	for field, change := range map[string]func(*Plan){
		"namespace":        func(p *Plan) { p.Namespace = "other" },
		"subscription":     func(p *Plan) { p.Pins[0].Subscription = "x" },
		"UID":              func(p *Plan) { p.Pins[0].SubscriptionUID = "x" },
		"catalog":          func(p *Plan) { p.Pins[0].Catalog = "x" },
		"catalogNamespace": func(p *Plan) { p.Pins[0].CatalogNamespace = "x" },
		"package":          func(p *Plan) { p.Pins[0].Package = "x" },
		"channel":          func(p *Plan) { p.Pins[0].Channel = "x" },
		"bundle":           func(p *Plan) { p.Pins[0].Bundle = "x" },
		"digest":           func(p *Plan) { p.Pins[0].Digest = "x" },
		"replaces":         func(p *Plan) { p.Pins[0].Replaces = "x" },
		"another pin":      func(p *Plan) { p.Pins = append(p.Pins, p.Pins[0]) },
	} {
		p := resolved(t)
		change(&p)
		changed := p.Name()
		require.NotContains(t, seen, changed, "%s and %s", field, seen[changed])
		seen[changed] = field
	}
}

func TestDecodeAcceptsOnlyWhatEncodeWrote(t *testing.T) {
	plan := resolved(t)
	text := plan.Encode()
	name := plan.Name()
	empty := Plan{Namespace: "ns", Pins: []Pin{}}.Name()

	got, err := Decode("ns", name, text)
	require.NoError(t, err)
	require.Equal(t, plan, got)
	for _, row := range []struct{ what, namespace, name, text, want string }{
		{"no text", "ns", name, "", "the pins are missing"},
		{"invalid JSON", "ns", name, "{", "the pins cannot be parsed"},
		{"another digest", "ns", name, strings.Replace(text, "sha256:", "sha256:0", 1), "the InstallPlan was edited"},
		{"another name", "ns", name + "x", text, "the InstallPlan was edited"},
		{"a copy in another namespace", "other", name, text, "the InstallPlan was edited"},
		{"nothing to install", "ns", empty, "[]", "the InstallPlan installs nothing"},
		{"null", "ns", empty, "null", "the InstallPlan installs nothing"},
	} {
		t.Run(row.what, func(t *testing.T) {
			_, err := Decode(row.namespace, row.name, row.text)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestStepsOfAPlanMatchItsResolution(t *testing.T) {
	plan, want, wantExcess, err := ResolveSteps(t.Context(), input(), chosen(t, "ns/cat/op/stable/"))
	require.NoError(t, err)
	steps, excess, err := StepsOf(t.Context(), input(), plan)
	require.NoError(t, err)
	require.Equal(t, want, steps)
	require.Equal(t, wantExcess, excess)
	require.Len(t, excess, 1, "the account has no permissions")
}

func TestStepsOfAPlanWithoutItsContent(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Input, *Pin)
		want   string
		// again is true if the caller must retry because no event announces recovery.
		again bool
	}{
		{"the catalog", func(in *Input, _ *Pin) { in.Catalogs = &catalog.Store{} }, "bundle content: catalogsource ns/cat is not available", false},
		{"the bundle", func(_ *Input, p *Pin) { p.Bundle = "op.v0" }, `bundle content: bundle "op.v0" of catalogsource ns/cat: the catalog contains no manifests`, false},
		{"its bytes", func(_ *Input, p *Pin) { p.Digest = "sha256:0" }, "but the InstallPlan requires sha256:0", false},
		{"its registry", func(in *Input, p *Pin) {
			snapshot, _ := in.Catalogs.Get(p.CatalogKey())
			away := *snapshot
			away.Reader = failing{}
			store := &catalog.Store{}
			store.Put(&away)
			in.Catalogs = store
		}, `bundle content: bundle "op.v2" of catalogsource ns/cat: connection refused`, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			in, plan := input(), resolved(t)
			row.change(&in, &plan.Pins[0])
			_, _, err := StepsOf(t.Context(), in, plan)
			require.ErrorIs(t, err, ErrContent)
			require.ErrorContains(t, err, row.want)
			var unread *ReadError
			require.Equal(t, row.again, errors.As(err, &unread))
		})
	}
}

func TestRefusesAPlanOfAForeignCatalogWithoutRevealingItsContent(t *testing.T) {
	plan := resolved(t)
	plan.Pins[0].CatalogNamespace = "foreign"
	for _, digest := range []string{plan.Pins[0].Digest, "sha256:0"} {
		plan.Pins[0].Digest = digest
		_, _, err := StepsOf(t.Context(), input(), plan)
		require.EqualError(t, err, "catalogsource foreign/cat is not visible from namespace ns")
		require.False(t, errors.Is(err, ErrContent), "no change to the catalog can fix the error")
	}
}

func TestPlansShareSubscriptionsByUID(t *testing.T) {
	a, b := resolved(t), resolved(t)
	b.Pins[0].Bundle = "op.v3"
	require.True(t, a.SharesSubscription(b))
	b.Pins[0].SubscriptionUID = "new"
	require.False(t, a.SharesSubscription(b))
	require.Equal(t, []string{"op.v2", "op.v3"}, Plan{Pins: []Pin{b.Pins[0], a.Pins[0], a.Pins[0]}}.CSVNames())
}

func TestRequirementsWithTheSameTextAreNotConfused(t *testing.T) {
	constraint := func(v any) string {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		return string(text)
	}
	gvk := func(kind string) map[string]any {
		return map[string]any{"gvk": map[string]any{"group": "x", "version": "v1", "kind": kind}}
	}
	s := graph("global/cat", "evil.v1.0.0 stable", "good.v1.0.0 stable", "wanted.v1.0.0 stable owns=K")
	asks := func(bundle, value string) {
		b := s.Packages[strings.TrimSuffix(bundle, ".v1.0.0")].Bundles[bundle]
		b.Properties = append(b.Properties, catalog.Property{Type: "olm.constraint", Value: json.RawMessage(value)})
	}
	asks("evil.v1.0.0", constraint(gvk("K and with package: wanted and with version in range: >=1.0.0")))
	asks("good.v1.0.0", constraint(map[string]any{"all": map[string]any{"constraints": []any{
		gvk("K"), map[string]any{"package": map[string]any{"packageName": "wanted", "versionRange": ">=1.0.0"}},
	}}}))
	m := newMeter(t.Context(), world(), Full())
	x := newIndex(m, s)
	found := map[string]int{}
	for _, pkg := range []string{"evil", "good"} {
		needs, err := x.bundles[pkg][pkg+".v1.0.0"].requirements(m)
		require.NoError(t, err)
		require.Equal(t, "providing an API with group: x, version: v1, kind: K and with package: wanted and with version in range: >=1.0.0", needs[0].text)
		found[pkg] = len(x.search(m, needs[0]))
	}
	require.Equal(t, map[string]int{"evil": 0, "good": 1}, found)
}

// A plan of another Subscription is recognized without decoding it.
func TestPlansOfOtherSubscriptionsAreRecognizedByTheirText(t *testing.T) {
	a, b := resolved(t), resolved(t)
	require.True(t, a.MayShareSubscription(b.Encode()))
	b.Pins[0].SubscriptionUID = "new"
	require.False(t, a.MayShareSubscription(b.Encode()))
	for range maxSought {
		a.Pins = append(a.Pins, a.Pins[0])
	}
	require.True(t, a.MayShareSubscription(b.Encode()), "so many searches cost more than to decode the text")
}
