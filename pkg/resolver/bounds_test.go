package resolver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// countingContext counts the calls to Err. It is canceled after canceledAfter calls, or never if that is 0.
type countingContext struct {
	context.Context      //nolint:containedctx // it implements context.Context
	looks, canceledAfter int
}

func (l *countingContext) Err() error {
	l.looks++
	if l.canceledAfter > 0 && l.looks > l.canceledAfter {
		return context.Canceled
	}
	return nil
}

func newDecision(ctx context.Context, in Input, ns Namespace) *decision {
	d := &decision{in: in, answer: newAnswer(), meter: newMeter(ctx, in, Full()), subjects: ns.Subjects}
	d.openCatalogs()
	d.readOthers(ns.Others)
	return d
}

// Messages contain text from catalogs, which may be of any length.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 245)
	s := graph("ns/cat", "p.v1.0.0 stable", "split.v1.0.0 stable", "asks.v1.0.0 stable")
	p, split := s.Packages["p"], s.Packages["split"].Channels["stable"]
	for i := range 1_000 {
		name := fmt.Sprintf("%06d%s", i, long)
		p.Channels[name] = &catalog.Channel{Name: name, Entries: p.Channels["stable"].Entries}
		split.Entries[name] = catalog.Entry{Name: name}
	}
	s.Packages["asks"].Bundles["asks.v1.0.0"].Properties = []catalog.Property{{Type: catalog.TypeLabelRequired, Value: []byte(`{"label": "` + strings.Repeat("x", 1<<20) + `"}`)}}
	got := world(s).resolve(subjects("a ns/cat/p/none", "b ns/cat/split/stable", "c ns/cat/asks/stable"))
	require.Len(t, got.Problems, 3)
	for uid, most := range map[string]int{"a": 2_000, "b": 2_000, "c": maxMessage + 100} {
		message := got.Problems[parseSubject(uid+" ns/cat/p/none").Subscription.UID].Message
		require.Less(t, len(message), most, uid)
		require.Greater(t, len(message), 500, "the message is not empty")
	}
}

// The time is checked even after only a few steps, because they may take a long time.
func TestChecksTheTimeForEachSubscription(t *testing.T) {
	const subs = 500
	var asked []string
	for i := range subs {
		asked = append(asked, fmt.Sprintf("s%03d ns/cat/op/stable", i))
	}
	ctx := &countingContext{Context: t.Context()}
	d := newDecision(ctx, world(graph("ns/cat", "op.v1.0.0 stable")), subjects(asked...))
	before := ctx.looks
	d.findRoots()
	require.GreaterOrEqual(t, ctx.looks-before, subs, "one check for each Subscription")

	before = ctx.looks
	for range 100 * checkCalls {
		require.NoError(t, d.meter.Spend(0))
	}
	require.GreaterOrEqual(t, ctx.looks-before, 100)

	ctx.canceledAfter = ctx.looks + 10
	d.roots = nil
	d.findRoots()
	require.LessOrEqual(t, len(d.roots), 10, "the other Subscriptions are not resolved")
	require.ErrorIs(t, d.meter.err, context.Canceled)
}

func TestDiscardsAnIncompleteIndex(t *testing.T) {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("p%03d.v1.0.0 stable", i))
	}
	s := graph("global/cat", lines...)
	in := world(s)
	ctx := &countingContext{Context: t.Context(), canceledAfter: 50}
	stopped := newMeter(ctx, in, Full())
	require.Nil(t, in.Indexes.get(stopped, s))
	require.ErrorIs(t, stopped.err, context.Canceled)
	require.Equal(t, 51, ctx.looks, "nothing is read after the cancellation")

	m := newMeter(t.Context(), in, Full())
	x := in.Indexes.get(m, s)
	require.Len(t, x.bundles, 100)
	require.Same(t, x, in.Indexes.get(m, s))
}

// A resolution that finds an index in the cache is charged as much as the resolution that built it. Indexes of global
// catalogs are free.
func TestEveryUserOfAnIndexPaysForIt(t *testing.T) {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("p%03d.v1.0.0 stable owns=K%d skips=%s", i, i, strings.Repeat("x,", 99)))
	}
	s := graph("ns/cat", lines...)
	in := world(s)
	var spent []int
	for range 2 {
		m := newMeter(t.Context(), in, Full())
		require.NotNil(t, in.Indexes.get(m, s))
		spent = append(spent, m.spent)
	}
	require.Equal(t, spent[0], spent[1])
	require.Greater(t, spent[0], 100*(100+2*costOfItem), "the cost includes kinds, bundles and skipped versions")
	limits := Limits{Cost: spent[0] - 1, Time: Full().Time}
	for name, in := range map[string]Input{"made": world(s), "found": in} {
		_, err := in.Resolve(t.Context(), limits, subjects("a ns/cat/p000/stable"))
		var exceeded *LimitError
		require.ErrorAs(t, err, &exceeded, name)
		require.Equal(t, []string{"catalogsource ns/cat as a whole"}, exceeded.Most, name)
	}
	large := graph("ns/cat", "p.v1.0.0 stable")
	large.Packages["p"].Bundles["p.v1.0.0"].Properties = []catalog.Property{{Type: "olm.gvk", Value: []byte(`{"kind": "` + strings.Repeat("x", 30<<20) + `"}`)}}
	_, err := world(large).Resolve(t.Context(), Light(), subjects("a ns/cat/p/stable"))
	require.ErrorContains(t, err, "catalogsource ns/cat as a whole")

	global := graph("global/cat", lines...)
	m := newMeter(t.Context(), in, Full())
	require.NotNil(t, in.Indexes.get(m, global))
	require.Zero(t, m.spent)
}

// The number of operators does not depend on how often, or for which requirements, the index is searched.
func TestAnIndexHasOneOperatorPerEntry(t *testing.T) {
	s := graph("ns/cat", "a.v1.0.0 stable,fast", "b.v1.0.0 stable")
	in := world(s)
	m := newMeter(t.Context(), in, Full())
	x := in.Indexes.get(m, s)
	kept := map[*operator]bool{}
	for i := range 100 {
		found := x.search(m, requirement{key: fmt.Sprint(i), match: func(*meter, *facts) bool { return true }})
		require.Len(t, found, 3)
		for _, o := range found {
			kept[o] = true
		}
	}
	require.Len(t, kept, 3)
	in.resolve(subjects("s ns/cat/a/stable installed=a.v0.9.0"))
	for o := range kept {
		require.Empty(t, o.replaces, "the operator is shared and must not be modified")
	}
}

func TestReadsEachOwnedKindOnce(t *testing.T) {
	f := factsOf(&catalog.Bundle{Properties: []catalog.Property{propertyOf("owns", "K"), propertyOf("owns", "K"), propertyOf("owns", "L")}})
	require.Len(t, f.apis, 2)
}

// The ClusterServiceVersions are read once for all rounds of solve.
func TestReadsOtherCSVsOnce(t *testing.T) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{
		names.AnnotationProperties: `{"properties": [{"type": "olm.package", "value": {"packageName": "op", "version": "1.0.0"}}]}`,
	}}}
	d := newDecision(t.Context(), world(graph("ns/cat")), Namespace{Others: []*operatorsv1alpha1.ClusterServiceVersion{csv}})
	require.Equal(t, 1+costOfReading(csv), d.meter.spent, "reading is charged")
	require.Same(t, d.newProblem().inPlace[0], d.newProblem().inPlace[0])
	require.Equal(t, "op", d.newProblem().inPlace[0].pkg)
}
