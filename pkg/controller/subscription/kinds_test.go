package subscription

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/resolver"
)

// listing is a client that lists CustomResourceDefinitions and counts the list requests.
type listing struct {
	client.Client
	crds  []apiextensionsv1.CustomResourceDefinition
	lists int
	err   error
}

func (l *listing) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	l.lists++
	list.(*apiextensionsv1.CustomResourceDefinitionList).Items = l.crds
	return l.err
}

func definition(kind string, served bool) apiextensionsv1.CustomResourceDefinition {
	return apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "g", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: served}, {Name: "v2"}},
	}}
}

// A tenant can update its own definitions at any rate. Only what is served matters to those who wait for a kind.
func TestOnlyChangesToServedKindsWake(t *testing.T) {
	is := func(change func(*apiextensionsv1.CustomResourceDefinition)) bool {
		before, after := definition("A", true), definition("A", true)
		change(&after)
		return kindsChanged().Update(event.UpdateEvent{ObjectOld: &before, ObjectNew: &after})
	}
	require.False(t, is(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Generation, crd.Annotations, crd.Spec.Versions[0].Storage = 2, map[string]string{"a": "b"}, true
	}))
	require.True(t, is(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = false }))
	require.True(t, is(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[1].Served = true }))
	require.True(t, is(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Name = "v3" }))
	require.True(t, is(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Names.Kind = "B" }))
	require.True(t, is(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Group = "h" }))
	require.True(t, kindsChanged().Create(event.CreateEvent{}))
	require.True(t, kindsChanged().Delete(event.DeleteEvent{}))
}

func kind(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "g", Version: "v1", Kind: name}
}

// serving returns a served value that contains kinds with the given names.
func serving(version int, names ...string) served {
	out := served{kinds: map[schema.GroupVersionKind]bool{}, version: version}
	for _, name := range names {
		out.kinds[kind(name)] = true
	}
	return out
}

func TestListsServedKindsOnceForEachChange(t *testing.T) {
	c := &listing{crds: []apiextensionsv1.CustomResourceDefinition{definition("K", true), definition("Off", false)}, err: errors.New("not yet")}
	k := &kinds{}
	_, err := k.served(t.Context(), c)
	require.ErrorContains(t, err, "not yet")
	c.err, c.lists = nil, 0
	for range 10 {
		got, err := k.served(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, serving(1, "K"), got)
	}
	require.Equal(t, 1, c.lists)
	c.crds = append(c.crds, definition("L", true))
	k.changed()
	got, err := k.served(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, serving(2, "K", "L"), got)
	require.Equal(t, 2, c.lists)
}

// needing returns a world in which package op requires kind K, which is not in any catalog.
func needing(t *testing.T, now served) *world {
	t.Helper()
	w := offering(subscription("a", ""))
	s, ok := w.input.Catalogs.Get(catalogKey)
	require.True(t, ok)
	for _, b := range s.Packages["op"].Bundles {
		b.Properties = []catalog.Property{{Type: "olm.gvk.required", Value: json.RawMessage(`{"group": "g", "version": "v1", "kind": "K"}`)}}
	}
	w.served, w.asking = now, newKindRecorder(now)
	w.input.Serves = w.asking.serves
	return w
}

// Changes to kinds that the resolution did not request do not matter.
func TestAnAnswerIsValidWhileItsKindsAreUnchanged(t *testing.T) {
	r := &Reconciler{Options: Options{Client: &creating{}}, indexes: &resolver.Indexes{}, answers: &answers{}, long: newLongQueue(clock.RealClock{}, &answers{})}
	advance := func(now served) *known {
		w := needing(t, now)
		ns := w.toResolve(w.views())
		k := r.answers.find("ns", key(w, ns), now)
		if k.answer == nil {
			later, err := r.resolve(t.Context(), w, ns, k)
			require.NoError(t, err)
			require.Nil(t, later)
			r.answers.Set("ns", k)
		}
		return k
	}
	first := advance(serving(1))
	require.Len(t, first.answer.Problems, 1)
	require.Same(t, first, advance(serving(2, "Other")), "this kind was not requested")
	second := advance(serving(3, "Other", "K"))
	require.Empty(t, second.answer.Problems)
	require.Same(t, second, advance(serving(4, "K")))
	require.Len(t, advance(serving(5)).answer.Problems, 1, "the kind is no longer served")
}

func TestAnAnswerWithManyKindsDependsOnAll(t *testing.T) {
	a := newKindRecorder(serving(1, "K"))
	for n := range maxUsedKinds + 1 {
		require.False(t, a.serves(kind(fmt.Sprint(n))))
	}
	require.True(t, a.serves(kind("K")))
	require.Len(t, a.used.kinds, maxUsedKinds)
	require.True(t, a.used.isCurrent(serving(1, "K")))
	require.False(t, a.used.isCurrent(serving(2, "K")))
}

// Users who have no access to a namespace may be able to change the served kinds. They must not be able to cancel the
// namespace's resolution.
func TestChangesToServedKindsDoNotCancelALongResolution(t *testing.T) {
	known := &answers{}
	l := newLongQueue(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), known)
	now := serving(1)
	l.served = func(context.Context) (served, error) { return now, nil }
	w := needing(t, now)
	ns := w.toResolve(w.views())
	l.enqueue("ns", keyWith(1), &job{input: w.input, ns: ns, asking: w.asking})
	for n := range 100 {
		require.Equal(t, &parked{}, l.check("ns", keyWith(1), serving(n, fmt.Sprint("Other", n))), "the namespace continues to wait")
	}
	now = serving(100, "K")
	require.True(t, l.next(t.Context()))
	require.Len(t, l.byNamespace["ns"].tries, 1)
	require.Empty(t, l.byNamespace["ns"].canceled)
	got := known.find("ns", keyWith(1), serving(101, "K", "Other"))
	require.NotNil(t, got.answer)
	require.Empty(t, got.answer.Problems, "the resolution uses the kinds that were served when it began")
	require.Nil(t, known.find("ns", keyWith(1), serving(102)).answer, "the answer is no longer valid")
}

func TestRetriesADelayedNamespaceWhenItsKindsChange(t *testing.T) {
	l := newLongQueue(clocktesting.NewFakePassiveClock(time.Unix(0, 0)), &answers{})
	a := newKindRecorder(serving(1))
	l.enqueue("ns", keyWith(1), &job{asking: a})
	require.False(t, a.serves(kind("K")))
	l.finish("ns", keyWith(1), l.byNamespace["ns"].job, resolver.Answer{}, &resolver.LimitError{Namespace: "ns"})
	require.Equal(t, firstPause, l.check("ns", keyWith(1), serving(2, "Other")).after)
	require.Nil(t, l.check("ns", keyWith(1), serving(3, "K")))
}
