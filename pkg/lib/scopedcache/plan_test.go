package scopedcache

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env/racing"
)

func TestAWiderFeedThatLagsBehindRevertsNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	object := f.claim("o", Object("x", "a"))
	object.lists(t, "10", secretAt("a", "10"))
	namespace := f.claim("n", Namespace("x"))
	object.sees(t, secretAt("a", "20"))
	namespace.lists(t, "15", secretAt("a", "10"), secretAt("b", "5"))
	require.True(t, f.isServing(namespace))
	namespace.sees(t, secretAt("a", "20"))
	namespace.sees(t, secretAt("a", "30"))
	require.Equal(t, []string{"add a 10", "update a 20", "add b 5", "update a 30"}, f.received())
}

func TestAWiderFeedThatLagsBehindRestoresNoDeletedObject(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	object := f.claim("o", Object("x", "a"))
	object.lists(t, "10", secretAt("a", "10"))
	namespace := f.claim("n", Namespace("x"))
	object.seesDeleted(t, secretAt("a", "20"))
	namespace.lists(t, "15", secretAt("a", "10"))
	namespace.seesDeleted(t, secretAt("a", "20"))
	require.Equal(t, []string{"add a 10", "delete a 20"}, f.received())
	namespace.sees(t, secretAt("a", "30", "another"))
	require.Equal(t, []string{"add a 10", "delete a 20", "add a 30"}, f.received())
}

func TestAWiderFeedThatLagsBehindKeepsNewObjects(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	object := f.claim("o", Object("x", "a"))
	object.lists(t, "10")
	namespace := f.claim("n", Namespace("x"))
	object.sees(t, secretAt("a", "20"))
	namespace.lists(t, "15")
	namespace.sees(t, secretAt("a", "20"))
	require.Equal(t, []string{"add a 20"}, f.received())
}

func TestANarrowerFeedThatLagsBehindRevertsNothing(t *testing.T) {
	t.Parallel()
	for _, scope := range []Scope{Cluster(), Namespace("x")} {
		f := newFake(t)
		wider := f.claim("w", scope)
		wider.lists(t, "10", secretAt("a", "10"), secretAt("b", "10"))
		f.claim("o", Object("x", "a"))
		f.Release(ownerOf("w"))
		object := f.feed(Object("x", "a"))
		wider.sees(t, secretAt("a", "20"))
		wider.seesDeleted(t, secretAt("a", "30"))
		wider.sees(t, secretAt("a", "40", "another"))
		object.lists(t, "15", secretAt("a", "10"))
		require.True(t, f.isServing(object))
		object.sees(t, secretAt("a", "20"))
		object.seesDeleted(t, secretAt("a", "30"))
		object.sees(t, secretAt("a", "40", "another"))
		object.sees(t, secretAt("a", "50", "another"))
		require.ElementsMatch(t, []string{"add a 10", "add b 10"}, f.received()[:2])
		require.Equal(t, []string{"update a 20", "delete a 30", "add a 40", "update a 50"}, f.received()[2:])
		require.Equal(t, []string{"x/a"}, f.secrets.objects.index.ListKeys())
	}
}

func TestAFeedThatIsAheadReportsChanges(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	namespace := f.claim("n", Namespace("x"))
	namespace.lists(t, "10", secretAt("a", "10"))
	f.claim("o", Object("x", "a"))
	f.Release(ownerOf("n"))
	f.feed(Object("x", "a")).lists(t, "30", secretAt("a", "30", "another"))
	require.Equal(t, []string{"add a 10", "delete a 10", "add a 30"}, f.received())
}

// If a feed took over while it lagged behind, its successor does not repeat the events that its predecessors have
// reported.
func TestTwoHandoversInARowRevertNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	namespace := f.claim("n", Namespace("x"))
	namespace.lists(t, "10", secretAt("a", "10"))
	f.claim("o", Object("x", "a"))
	f.Release(ownerOf("n"))
	namespace.seesDeleted(t, secretAt("a", "20"))
	object := f.feed(Object("x", "a"))
	object.lists(t, "15", secretAt("a", "10"))
	require.True(t, f.isServing(object))
	again := f.claim("again", Namespace("x"))
	again.lists(t, "17", secretAt("a", "10"))
	require.True(t, f.isServing(again))
	require.Equal(t, []string{"add a 10", "delete a 20"}, f.received())
}

// When a feed that did not serve its scope ends, other feeds do not take over from it.
func TestAnObjectHasOneServingFeed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	cluster := f.claim("c", Cluster())
	cluster.lists(t, "10", secretAt("a", "10"))
	f.claim("a", Object("x", "a"))
	f.claim("n", Namespace("x"))
	f.claim("m", Namespace("y"))
	f.Release(ownerOf("c")) // the cluster's feed serves until the other feeds have their objects
	object := f.feed(Object("x", "a"))
	object.lists(t, "10", secretAt("a", "10"))
	cluster.seesDeleted(t, secretAt("a", "20"))
	require.False(t, f.isServing(object))
	f.Release(ownerOf("n"))
	require.True(t, f.isServing(cluster), "the objects of y are not listed yet")
	require.False(t, f.isServing(object))
	require.Equal(t, []string{"add a 10", "delete a 20"}, f.received())
	f.feed(Namespace("y")).lists(t, "20")
	require.True(t, f.isServing(object))
	require.Equal(t, []string{"add a 10", "delete a 20"}, f.received())
}

// An API server that lags behind returns an older list in response to a feed's second list request.
func TestAnOlderListChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	object := f.claim("o", Object("x", "a"))
	object.lists(t, "10", secretAt("a", "10"))
	object.sees(t, secretAt("a", "20"))
	object.lists(t, "15", secretAt("a", "10"))
	stored, _ := f.secrets.objects.get("x/a")
	require.Equal(t, "20", stored.GetResourceVersion())
	object.sees(t, secretAt("a", "20"))
	object.seesDeleted(t, secretAt("a", "30"))
	object.lists(t, "25", secretAt("a", "20"))
	require.Equal(t, []string{"add a 10", "update a 20", "delete a 30"}, f.received())

	// Another feed takes over from this feed.
	namespace := f.claim("n", Namespace("x"))
	namespace.lists(t, "27", secretAt("a", "20"))
	require.True(t, f.isServing(namespace))
	namespace.seesDeleted(t, secretAt("a", "30"))
	namespace.sees(t, secretAt("a", "40", "another"))
	require.Equal(t, []string{"add a 10", "update a 20", "delete a 30", "add a 40"}, f.received())
}

// behindItsObject returns a fake in which the feed of namespace x serves version 20, although the feed of object a had
// already reported version 25.
func behindItsObject(t *testing.T) (*fake, *feed) {
	t.Helper()
	f := newFake(t)
	object := f.claim("o", Object("x", "a"))
	object.lists(t, "10", secretAt("a", "10"))
	namespace := f.claim("n", Namespace("x"))
	object.sees(t, secretAt("a", "25"))
	namespace.lists(t, "20", secretAt("a", "10"), secretAt("b", "19"))
	require.True(t, f.isServing(namespace))
	return f, namespace
}

// An event that was reported for one object must not count as reported for all objects of the namespace.
func TestTwoHandoversLoseNoChange(t *testing.T) {
	t.Parallel()
	f, _ := behindItsObject(t)
	cluster := f.claim("c", Cluster())
	cluster.lists(t, "23", secretAt("a", "10"), secretAt("b", "22"))
	require.True(t, f.isServing(cluster))
	cluster.sees(t, secretAt("a", "25"))
	cluster.sees(t, secretAt("z", "30"))
	require.Equal(t, []string{"add a 10", "update a 25", "add b 19", "update b 22", "add z 30"}, f.received())
}

func TestTwoHandoversLoseNoEvent(t *testing.T) {
	t.Parallel()
	f, _ := behindItsObject(t)
	cluster := f.claim("c", Cluster())
	cluster.lists(t, "21", secretAt("a", "10"), secretAt("b", "19"))
	require.True(t, f.isServing(cluster))
	cluster.seesDeleted(t, secretAt("b", "22"))
	cluster.sees(t, secretAt("z", "30"))
	require.Equal(t, []string{"add a 10", "update a 25", "add b 19", "delete b 22", "add z 30"}, f.received())
}

func TestNarrowingAfterWideningLosesNoChange(t *testing.T) {
	t.Parallel()
	f, _ := behindItsObject(t)
	f.claim("p", Object("x", "b"))
	f.Release(ownerOf("n"))
	a, b := f.feed(Object("x", "a")), f.feed(Object("x", "b"))
	a.lists(t, "24", secretAt("a", "10")) // this feed also lags behind the reported events of a
	b.lists(t, "23", secretAt("b", "22"))
	require.True(t, f.isServing(b))
	a.sees(t, secretAt("a", "25"))
	a.sees(t, secretAt("a", "26"))
	require.Equal(t, []string{"add a 10", "update a 25", "add b 19", "update b 22", "update a 26"}, f.received())
}

// Two feeds lag behind. The versions up to which events of single objects were reported are passed from the cluster's
// feed to the namespace's feed.
func TestANamespaceSucceedsTheClusterWithoutLoss(t *testing.T) {
	t.Parallel()
	f, _ := behindItsObject(t)
	cluster := f.claim("c", Cluster())
	cluster.lists(t, "21", secretAt("a", "10"), secretAt("b", "19"))
	f.Release(ownerOf("c"))
	namespace := f.feed(Namespace("x"))
	namespace.lists(t, "23", secretAt("a", "10"), secretAt("b", "22"))
	require.True(t, f.isServing(namespace))
	namespace.sees(t, secretAt("a", "25"))
	namespace.sees(t, secretAt("a", "26"))
	require.Equal(t, []string{"add a 10", "update a 25", "add b 19", "update b 22", "update a 26"}, f.received())
}

// The versions that the cluster's feed reported do not apply to namespaces that no feed has served since then.
func TestDroppedObjectsAreAddedAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	elsewhere := secretAt("b", "10")
	elsewhere.Namespace = "y"
	cluster := f.claim("c", Cluster())
	cluster.lists(t, "10", elsewhere)
	cluster.sees(t, secretAt("a", "30"))
	f.claim("n", Namespace("x"))
	f.Release(ownerOf("c"))
	namespace := f.feed(Namespace("x"))
	namespace.lists(t, "20")
	require.True(t, f.isServing(namespace))
	require.Equal(t, []string{"x/a"}, f.secrets.objects.index.ListKeys())
	again := f.claim("again", Cluster())
	again.lists(t, "25", elsewhere)
	require.True(t, f.isServing(again))
	require.Equal(t, []string{"add b 10", "add a 30", "add b 10"}, f.received())
}

// An API server that lags behind responds to the second list request of a feed that still lags behind one of its
// objects.
func TestAnOlderListKeepsTheFloorsOfObjects(t *testing.T) {
	t.Parallel()
	f, namespace := behindItsObject(t)
	namespace.lists(t, "18", secretAt("a", "10"), secretAt("b", "18"))
	namespace.sees(t, secretAt("b", "19"))
	namespace.sees(t, secretAt("b", "22"))
	namespace.sees(t, secretAt("a", "25"))
	namespace.sees(t, secretAt("z", "30"))
	require.Equal(t, []string{"add a 10", "update a 25", "add b 19", "update b 22", "add z 30"}, f.received())
}

// The cluster's feed serves until all namespaces are listed. If it is refused before that, the feeds of namespaces that
// are listed take over.
func TestFeedsThatSucceedARefusedFeedRevertNothing(t *testing.T) {
	t.Parallel()
	for _, wider := range []Scope{Cluster(), Namespace("x")} {
		for _, narrower := range []Scope{Namespace("x"), Object("x", "a")} {
			if wider == narrower {
				continue
			}
			t.Run(wider.String()+" to "+narrower.String(), func(t *testing.T) {
				t.Parallel()
				f := newFake(t)
				refused := f.claim("w", wider)
				refused.lists(t, "10", secretAt("a", "10"), secretAt("b", "10"))
				f.claim("n", narrower)
				f.claim("m", Object("x", "m"))
				f.claim("y", Namespace("y"))
				f.Release(ownerOf("w"))
				successor := f.feed(narrower)
				refused.sees(t, secretAt("a", "20"))
				refused.seesDeleted(t, secretAt("a", "30"))
				successor.lists(t, "15", secretAt("a", "10"), secretAt("b", "10"))
				require.False(t, f.isServing(successor))
				refused.denied()
				require.True(t, f.isServing(successor))
				successor.sees(t, secretAt("a", "20"))
				successor.seesDeleted(t, secretAt("a", "30"))
				successor.sees(t, secretAt("a", "40", "another"))
				require.ElementsMatch(t, []string{"add a 10", "add b 10"}, f.received()[:2])
				require.Equal(t, []string{"update a 20", "delete a 30", "add a 40"}, f.received()[2:])
			})
		}
	}
}

// Without streaming lists, a feed lists before the API server has accepted its watch.
func TestAFeedWithoutAWatchDoesNotTakeOver(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	x := f.claim("o", Namespace("x"))
	x.lists(t, "10", secretAt("a", "10"))
	cluster := f.claim("p", Cluster())
	require.NoError(t, cluster.kind.listed(cluster, []any{secretAt("a", "10")}, "12"))
	require.True(t, f.isServing(x))
	cluster.denied()
	require.True(t, f.isServing(x))
	require.Equal(t, Live, f.Status(ownerOf("o"))[0].State)
	require.Equal(t, []string{"add a 10"}, f.received())
}

// If there is a wider claim, claims for objects are planned one by one. Planning all of thousands of claims each time would
// take minutes.
func TestManyObjectsNextToAWiderClaim(t *testing.T) {
	t.Parallel()
	const objects = 10_000
	for name, wider := range map[string]func(*testing.T, *fake){
		"refused in the namespace": func(_ *testing.T, f *fake) { f.claim("w", Namespace("x")).denied() },
		"live in the cluster": func(t *testing.T, f *fake) {
			t.Helper()
			f.claim("w", Namespace("x"))
			f.claim("w", Cluster()).lists(t, "10")
		},
		"live in the namespace": func(t *testing.T, f *fake) { t.Helper(); f.claim("w", Namespace("x")).lists(t, "10") },
		"coalesced":             func(_ *testing.T, f *fake) { f.options.CoalesceObjects = 2 * objects },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			wider(t, f)
			started := time.Now()
			for i := range objects {
				if feed := f.claim("o", Object("x", fmt.Sprint("c", i))); feed != nil {
					feed.lists(t, "10")
				}
			}
			require.Less(t, time.Since(started), racing.Slowdown*5*time.Second)
		})
	}
}
