package subscription

import (
	"context"
	"errors"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env/proofs"
)

var catalogKey = types.NamespacedName{Namespace: "ns", Name: "cat"}

// offering returns a world whose catalog contains versions 1 and 2 of package op. Version 2 requires package dep.
func offering(subs ...*operatorsv1alpha1.Subscription) *world {
	bundle := func(name, pkg, version string, properties ...catalog.Property) *catalog.Bundle {
		return &catalog.Bundle{Name: name, Package: pkg, Version: version, Properties: properties}
	}
	pkg := func(name string, entries map[string]catalog.Entry, bundles ...*catalog.Bundle) *catalog.Package {
		p := &catalog.Package{Name: name, DefaultChannel: "stable", Bundles: map[string]*catalog.Bundle{},
			Channels: map[string]*catalog.Channel{"stable": {Name: "stable", Entries: entries}}}
		for _, b := range bundles {
			p.Bundles[b.Name] = b
		}
		return p
	}
	store := &catalog.Store{}
	store.Put(&catalog.Snapshot{Key: catalogKey, Digest: "a", Packages: map[string]*catalog.Package{
		"op": pkg("op", map[string]catalog.Entry{"op.v1": {Name: "op.v1"}, "op.v2": {Name: "op.v2", Replaces: "op.v1"}},
			bundle("op.v1", "op", "1.0.0"),
			bundle("op.v2", "op", "2.0.0", catalog.Property{Type: "olm.package.required", Value: []byte(`{"packageName": "dep", "versionRange": ">=1.0.0"}`)})),
		"dep": pkg("dep", map[string]catalog.Entry{"dep.v1": {Name: "dep.v1"}}, bundle("dep.v1", "dep", "1.0.0")),
	}})
	w := &world{namespace: "ns", proofs: proofs.Keys(), asking: newKindRecorder(served{}), input: resolver.Input{
		Namespace: "ns", GlobalCatalogNamespace: "global", Catalogs: store, Indexes: &resolver.Indexes{}, Visible: []types.NamespacedName{catalogKey},
	}, sources: map[types.NamespacedName]*metav1.PartialObjectMetadata{catalogKey: {}}}
	for _, sub := range subs {
		w.subscriptions = append(w.subscriptions, *sub)
	}
	return w
}

// creating is a client that records created objects instead of creating them.
type creating struct {
	client.Client
	made []client.Object
	err  error
}

func (c *creating) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	c.made = append(c.made, obj)
	return c.err
}

func TestCreatesASubscriptionForADependency(t *testing.T) {
	c := &creating{}
	r := &Reconciler{Options: Options{Client: c}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock.RealClock{}, &answers{})}
	w := offering(subscription("a", operatorsv1alpha1.ApprovalManual))
	views, err := r.advance(t.Context(), w)
	require.NoError(t, err)
	require.Nil(t, views["a"].plan, "the Subscription is created first")
	require.Len(t, c.made, 1)
	made, ok := c.made[0].(*operatorsv1alpha1.Subscription)
	require.True(t, ok)
	require.Equal(t, "dep-stable-cat-ns", made.Name)
	require.Equal(t, "sub", made.Annotations[names.AnnotationGeneratedBy])
	require.Equal(t, &operatorsv1alpha1.SubscriptionSpec{CatalogSource: "cat", CatalogSourceNamespace: "ns", Package: "dep", Channel: "stable",
		StartingCSV: "dep.v1", InstallPlanApproval: operatorsv1alpha1.ApprovalManual}, made.Spec)
	require.Empty(t, made.OwnerReferences, "the Subscription has no owner, so it is not deleted with the other Subscription")
}

// pulling is the reader of a catalog whose bundle image is still being pulled, or cannot be pulled.
type pulling struct {
	catalog.ContentReader
	failure error
}

func (p pulling) Content(context.Context, string, string, string) (*catalog.Content, error) {
	return nil, &catalog.NotUnpacked{Image: "images.test/op:v1", Failure: p.failure}
}

func TestReportsUnpackingThatExceedsTheTimeoutOfTheGroup(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	r := &Reconciler{Options: Options{Client: &creating{}, Clock: clock}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock, &answers{})}
	others := ""
	var failure error
	advance := func(timeout time.Duration) (*view, time.Duration) {
		sub := subscription("a", "")
		sub.Spec.StartingCSV = "op.v1"
		w := offering(sub)
		snapshot, _ := w.input.Catalogs.Get(catalogKey)
		snapshot.Reader = pulling{failure: failure}
		w.unpackTimeout, w.input.Group = timeout, others
		views, err := r.advance(t.Context(), w)
		require.NoError(t, err)
		return views["a"], w.after
	}
	got, after := advance(0)
	require.NotEmpty(t, got.unpacking, "without a timeout")
	require.Zero(t, after)

	got, after = advance(time.Minute)
	require.NotEmpty(t, got.unpacking)
	require.Nil(t, got.unpackFailed)
	require.Equal(t, time.Minute, after)
	clock.SetTime(clock.Now().Add(45 * time.Second))
	others = "changed" // a changed input causes another resolution
	_, after = advance(time.Minute)
	require.Equal(t, 15*time.Second, after)

	clock.SetTime(clock.Now().Add(15 * time.Second))
	got, after = advance(time.Minute)
	timedOut := &reasoned{"BundleUnpackFailed", "bundle unpacking failed. Reason: DeadlineExceeded, and Message: Job was active longer than specified deadline"}
	require.Equal(t, timedOut, got.unpackFailed)
	require.Contains(t, got.unpacking, "operatorframework.io/bundle-unpack-timeout allows 1m0s, but the pull continues")
	require.Zero(t, after, "the catalog wakes the namespace if the pull succeeds later")

	failure, others = errors.New("404"), "failed"
	got, _ = advance(time.Minute)
	require.Equal(t, timedOut, got.unpackFailed)
	require.Contains(t, got.problem.Message, "404")
	others = "failed without a timeout"
	got, _ = advance(0)
	require.Contains(t, got.unpackFailed.message, "404")
}

func TestReadsTheUnpackTimeoutOfAGroup(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "10m": 10 * time.Minute, "1ms": time.Millisecond, "-1m": 0, "0": 0, "soon": 0} {
		og := &operatorsv1.OperatorGroup{}
		og.Annotations = map[string]string{"operatorframework.io/bundle-unpack-timeout": text}
		require.Equal(t, want, unpackTimeout(og), text)
	}
	require.Zero(t, unpackTimeout(&operatorsv1.OperatorGroup{}))
}

func TestReportsARefusedCreationOnTheSubscription(t *testing.T) {
	r := &Reconciler{Options: Options{Client: &creating{err: errors.New("exceeded quota")}}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock.RealClock{}, &answers{})}
	views, err := r.advance(t.Context(), offering(subscription("a", "")))
	require.ErrorContains(t, err, "exceeded quota")
	require.Equal(t, &reasoned{"EnsureInstallPlanFailed", "create Subscription dep-stable-cat-ns: exceeded quota"}, views["a"].unpackFailed)
	require.Nil(t, r.answers.Get("ns"), "the creation is retried")
}

func TestGeneratedNamesAreValid(t *testing.T) {
	needed := []*operatorsv1alpha1.Subscription{subscription("a", "")}
	choice := resolver.Choice{Catalog: catalogKey, Package: "Dep_x", Channel: "4.x+", Bundle: "dep.v1", NeededBy: needed}
	require.Regexp(t, "^dep-x-4-x--cat-ns-[a-z2-7]{16}$", generatedName(&world{}, choice))
	choice = resolver.Choice{Catalog: catalogKey, Package: "dep", Channel: "stable", Bundle: "dep.v1", NeededBy: needed}
	require.Equal(t, "dep-stable-cat-ns", generatedName(&world{}, choice))
	taken := subscription("b", "")
	taken.Name = "dep-stable-cat-ns"
	require.Regexp(t, "^dep-stable-cat-ns-[a-z2-7]{16}$", generatedName(&world{subscriptions: []operatorsv1alpha1.Subscription{*taken}}, choice))
}

// The key depends on all inputs of a resolution and on nothing else.
func TestAnAnswerIsCachedUntilAnInputChanges(t *testing.T) {
	keyAfter := func(change func(*world)) [32]byte {
		w := offering(subscription("a", ""))
		change(w)
		views := map[types.UID]*view{}
		for i := range w.subscriptions {
			views[w.subscriptions[i].UID] = w.viewOf(&w.subscriptions[i])
		}
		return key(w, w.toResolve(views))
	}
	base := keyAfter(func(*world) {})
	require.Equal(t, base, keyAfter(func(*world) {}))
	require.Equal(t, base, keyAfter(func(w *world) { w.subscriptions[0].ResourceVersion = "7" }), "a status change does not require another resolution")
	owned := operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op.v1"}}
	proofs.Mark(&owned, ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "op", Namespace: "ns"}, Proofs: proofs.Keys()})
	succeeded := owned
	succeeded.Status.Phase = operatorsv1alpha1.CSVPhaseSucceeded
	seen := map[[32]byte]string{base: "nothing"}
	for what, change := range map[string]func(*world){
		"the content of a catalog": func(w *world) {
			s, _ := w.input.Catalogs.Get(catalogKey)
			changed := *s
			changed.Digest = "b"
			w.input.Catalogs.(*catalog.Store).Put(&changed)
		},
		"a removed catalog":                   func(w *world) { w.input.Catalogs.(*catalog.Store).Delete(catalogKey) },
		"an additional catalog":               func(w *world) { w.input.Visible = append(w.input.Visible, types.NamespacedName{Name: "x"}) },
		"a spec":                              func(w *world) { w.subscriptions[0].Spec.Channel = "beta" },
		"a Subscription":                      func(w *world) { w.subscriptions = nil },
		"an installed version":                func(w *world) { w.csvs = append(w.csvs, owned) },
		"an installed version that succeeded": func(w *world) { w.csvs = append(w.csvs, succeeded) },
		"a version without a Subscription": func(w *world) {
			w.csvs = append(w.csvs, operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
		},
		"the account":                 func(w *world) { w.input.Account.Name = "other" },
		"the targets":                 func(w *world) { w.input.Targets = []string{"x"} },
		"excluded global catalogs":    func(w *world) { w.input.ExcludeGlobal = true },
		"a dependency's Subscription": func(w *world) { w.subscriptions[0].Annotations = map[string]string{names.AnnotationGeneratedBy: "x"} },
	} {
		got := keyAfter(change)
		require.NotContains(t, seen, got, "%s and %s", what, seen[got])
		seen[got] = what
	}
}

func TestReusesTheAnswer(t *testing.T) {
	r := &Reconciler{Options: Options{Client: &creating{}}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock.RealClock{}, &answers{})}
	sub := subscription("a", "")
	sub.Spec.Package = "nothing"
	w := offering(sub)
	_, err := r.advance(t.Context(), w)
	require.NoError(t, err)
	first := r.answers.Get("ns")
	views, err := r.advance(t.Context(), offering(sub))
	require.NoError(t, err)
	require.Same(t, first, r.answers.Get("ns"))
	require.Same(t, first.answer.Problems["a"], views["a"].problem)
}

func TestForgetsANamespaceWithoutSubscriptions(t *testing.T) {
	r := &Reconciler{Options: Options{Client: &creating{}}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock.RealClock{}, &answers{})}
	sub := subscription("a", "")
	sub.Spec.Package = "nothing"
	_, err := r.advance(t.Context(), offering(sub))
	require.NoError(t, err)
	require.NotNil(t, r.answers.Get("ns"))
	w := offering()
	w.blocked = &resolver.Problem{Reason: resolver.ErrorPreventedResolution}
	_, err = r.advance(t.Context(), w)
	require.NoError(t, err)
	require.Nil(t, r.answers.Get("ns"))
}

func TestUserSubscriptionsTakePrecedenceOverDependencies(t *testing.T) {
	made, person := subscription("a", ""), subscription("b", "")
	made.Annotations = map[string]string{names.AnnotationGeneratedBy: "x"}
	w := offering(made, person)
	ns := w.toResolve(map[types.UID]*view{"a": {}, "b": {}})
	require.Len(t, ns.Subjects, 1)
	require.Equal(t, types.UID("b"), ns.Subjects[0].Subscription.UID)
	require.True(t, offering(made).toResolve(map[types.UID]*view{"a": {}}).Subjects[0].Optional)
}
