package clusterextension

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/step"
)

// largeContent is a bundle of about the given number of MiB of estimated memory. It counts how often it is read.
type largeContent struct {
	mib   int
	reads int
}

// Content implements catalog.ContentReader.
func (c *largeContent) Content(context.Context, string, string, string) (*catalog.Content, error) {
	c.reads++
	out := &catalog.Content{Manifests: [][]byte{[]byte(keptCSV)}}
	const most = 40
	for left := c.mib; left > 0; left -= most {
		groups := strings.Repeat("{},", min(left, most)<<20/268) + "{}"
		out.Manifests = append(out.Manifests, fmt.Appendf(nil,
			`{"apiVersion":"monitoring.coreos.com/v1","kind":"PrometheusRule","metadata":{"name":"r%d"},"spec":{"groups":[%s]}}`, left, groups))
	}
	return out, nil
}

// resolved begins a run of an extension whose bundle is in a catalog.
func (u *unit) resolved(name string, from catalog.ContentReader) *run {
	u.t.Helper()
	s := u.begin(extension(name))
	s.resolved = resolve.Result{
		Package: &catalog.Package{Name: name}, Channel: "stable", Bundle: &catalog.Bundle{Name: name + ".v2", Version: "2.0.0"}, Snapshot: &catalog.Snapshot{Reader: from},
	}
	return s
}

// read reads the bundle of a run, and returns the error.
func (u *unit) read(s *run) error {
	u.t.Helper()
	out, err := readBundle(u.t.Context(), s)
	require.False(u.t, out.stopped, out.message)
	return err
}

// costs returns the estimated memory of all contents, and whose are remembered.
func (u *unit) costs() (total int64, names map[string]bool) {
	names = map[string]bool{}
	u.memory.Each(func(name string, is remembered) {
		if total += is.cost(); is.content != nil {
			names[name] = true
		}
	})
	return total, names
}

func liveHeap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// The bundles of five extensions filled the memory of the program.
func TestContentsOfAllExtensionsAreBounded(t *testing.T) {
	u := givenUnit(t, interceptor.Funcs{})
	running := u.resolved("running", &largeContent{mib: 20})
	require.NoError(t, u.read(running))
	before := liveHeap()
	for i := range 10 {
		s := u.resolved(fmt.Sprint("op", i), &largeContent{mib: 20})
		require.NoError(t, u.read(s))
		s.finish()
		total, _ := u.costs()
		require.LessOrEqual(t, total, int64(maxContents))
	}
	require.Less(t, liveHeap()-before, int64(maxContents))
	total, names := u.costs()
	require.Greater(t, total, int64(100<<20))
	require.Equal(t, map[string]bool{"running": true, "op5": true, "op6": true, "op7": true, "op8": true, "op9": true}, names, "the others have been unused for longer")

	from := &largeContent{mib: 20}
	for range 3 {
		s := u.resolved("op0", from)
		require.NoError(t, u.read(s))
		require.NotNil(t, s.bundle)
		s.finish()
	}
	require.Equal(t, 1, from.reads, "a forgotten content is read again once")
	_, names = u.costs()
	require.True(t, names["op0"] && !names["op5"])

	running.memory.Change("op6", func(is *remembered) { is.keeping.problem = "too large" })
	s := u.resolved("op1", from)
	require.NoError(t, u.read(s))
	s.finish()
	_, names = u.costs()
	require.True(t, names["op6"] && !names["op7"], "only the catalog has the content of op6")
	u.memory.Delete("op1")
	s.finish()
	require.Empty(t, u.memory.Get("op1"), "a forgotten extension is not remembered again")
}

func TestBundlesLargerThanTheMemoryForAllAreNotKept(t *testing.T) {
	u := givenUnit(t, interceptor.Funcs{})
	small := u.resolved("small", &largeContent{mib: 1})
	require.NoError(t, u.read(small))
	small.finish()
	s := u.resolved("large", oneContent(keptCSV))
	require.NoError(t, u.read(s))
	u.memory.Change("large", func(is *remembered) { is.content.cost = maxContents + 1 })
	s.finish()
	_, names := u.costs()
	require.Equal(t, map[string]bool{"small": true}, names, "the others are not forgotten for it")
}

// Twelve extensions are reconciled concurrently, and each of them may install a bundle of any size.
func TestRunsWithCostlyContentsTakeTurns(t *testing.T) {
	u := givenUnit(t, interceptor.Funcs{})
	from := map[string]*largeContent{}
	begin := func(name string) *run {
		if from[name] == nil {
			from[name] = &largeContent{mib: 30}
		}
		return u.resolved(name, from[name])
	}
	first, second := begin("a"), begin("b")
	require.NoError(t, u.read(first))
	require.NoError(t, u.read(second))
	for range 3 {
		for _, name := range []string{"c", "d"} {
			s := begin(name)
			err := u.read(s)
			require.ErrorContains(t, err, "waiting until other bundles that need much memory have been processed")
			_, after, _ := s.interrupt(outcome{}, err)
			require.Equal(t, crowdedRetry, after)
			s.finish()
		}
	}
	require.Equal(t, 1, from["c"].reads, "a run that waits does not read the content again")
	small := u.resolved("small", &largeContent{mib: 1})
	require.NoError(t, u.read(small), "other bundles do not wait")

	require.Equal(t, []string{"c"}, u.memory.places.leave("a", false), "it is woken")
	require.Error(t, u.read(begin("d")), "c has waited for longer")
	third := begin("c")
	require.NoError(t, u.read(third))
	second.finish()
	require.NoError(t, u.read(begin("a")), "what is remembered is not parsed")
	require.NoError(t, u.read(begin("d")))
	require.Error(t, u.read(begin("e")))
	require.Error(t, u.read(begin("f")))
	u.memory.places.leave("e", false)
	third.finish()
	require.NoError(t, u.read(begin("f")), "an extension that was deleted does not wait")
}

// Two bytes of a YAML list become a value that takes a hundred.
func TestYAMLIsMeasuredWhileItIsParsed(t *testing.T) {
	u := givenUnit(t, interceptor.Funcs{})
	u.memory.places.taken = map[string]bool{"x": true, "y": true}
	raw := &catalog.Content{Manifests: [][]byte{[]byte(keptCSV)}}
	for i := range 2 {
		raw.Manifests = append(raw.Manifests, fmt.Appendf(nil, "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: r%d}\nspec:\n  groups:\n%s", i, strings.Repeat("  - 0\n", 120_000)))
	}
	require.Less(t, costOf(raw), int64(costlyContent))
	s := u.resolved("op", nil)
	_, _, err := s.parse(t.Context(), "k", raw)
	require.True(t, isCrowded(err), "%v", err)
	require.True(t, isCrowded(s.awaitTurn("k")), "it is not parsed again")
	u.memory.places.leave("x", false)
	b, cost, err := s.parse(t.Context(), "k", raw)
	require.NoError(t, err)
	require.Greater(t, cost, int64(costlyContent))
	require.Equal(t, b.Cost, cost)
}

// A run may need the contents of two versions.
func TestContentsOfOneRunCountTogether(t *testing.T) {
	u := givenUnit(t, interceptor.Funcs{})
	u.memory.places.taken = map[string]bool{"x": true, "y": true}
	s := u.resolved("op", nil)
	require.NoError(t, s.admit("one", costlyContent*3/4))
	require.NoError(t, s.admit("one", costlyContent*3/4))
	require.Error(t, s.admit("two", costlyContent/2))
}

// Existing objects can be large because of whoever wrote them.
func TestRunsWithLargeExistingObjectsTakePlaces(t *testing.T) {
	t.Parallel()
	ext := extension("a", asInstaller)
	u := givenUnit(t, interceptor.Funcs{}, ext, installer("1"))
	u.Clients = &opened{}
	u.memory.places.taken = map[string]bool{"x": true, "y": true}
	begin := func() *run {
		s := u.begin(ext)
		var err error
		s.identity, _, err = s.lookUp(t.Context(), s.Client)
		require.NoError(t, err)
		_, err = openClients(t.Context(), s)
		require.NoError(t, err)
		return s
	}
	s := begin()
	require.True(t, isCrowded(s.executor.Place()))
	s.finish()
	require.Equal(t, []string{"a"}, u.memory.places.leave("x", false), "it is woken")
	s = begin()
	require.NoError(t, s.executor.Place())
	require.True(t, u.memory.places.taken["a"])
	s.finish()
	require.False(t, u.memory.places.taken["a"])
}

func TestOnlyLongWaitsAreReported(t *testing.T) {
	u := givenUnit(t, interceptor.Funcs{})
	u.memory.places.taken = map[string]bool{"x": true, "y": true}
	wait := func() (outcome, time.Duration, error) {
		s := u.resolved("op", nil)
		return s.interrupt(outcome{}, s.admit("one", costlyContent+1))
	}
	_, after, err := wait()
	require.Equal(t, crowdedRetry, after)
	require.Error(t, err)
	u.clock.SetTime(u.clock.Now().Add(crowdedFor))
	out, after, err := wait()
	require.NoError(t, err)
	require.Zero(t, after)
	require.Equal(t, olmv1.ReasonRollingOut, out.progressing.Reason)
	require.Contains(t, string(out.message), "at most 2 are at a time")

	s := u.resolved("op", nil)
	_, after, _ = s.interrupt(outcome{}, fmt.Errorf("read: %w", errStale))
	require.Equal(t, cacheLag, after)
	failed := errors.New("x")
	_, after, err = s.interrupt(outcome{}, failed)
	require.Zero(t, after)
	require.Equal(t, failed, err)
}

// What was observed does not depend on the content.
func TestForgettingContentsChangesNoConditions(t *testing.T) {
	t.Parallel()
	ext, reads := installed(), 0
	u := givenUnit(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if obj.GetObjectKind().GroupVersionKind().Kind == "ConfigMap" {
			reads++
		}
		return c.Get(ctx, key, obj, opts...)
	}}, ext)
	u.Proofs = textProofs{u.Proofs}
	require.Empty(t, u.keep(ext, keptCSV))
	u.memory.Change("op", func(is *remembered) { is.probedFor = "hash" })
	check := func() {
		t.Helper()
		s := u.begin(ext)
		out, err := s.keepInstalled(t.Context())
		require.NoError(t, err)
		require.False(t, out.stopped)
		require.Equal(t, "op.v1", s.bundle.CSV.Name)
		s.observeInstalled(t.Context())
		require.Equal(t, metav1.ConditionTrue, s.available.Status)
		s.finish()
	}
	check()
	u.memory.Change("op", (*remembered).forgetContents)
	reads = 0
	for range 3 {
		check()
	}
	require.Equal(t, 1, reads, "no requests while nothing changes")

	// Another version is pending, and the catalog does not contain the installed one any longer.
	pending := func() *run {
		s := u.begin(ext)
		s.resolved = resolve.Result{Package: &catalog.Package{Name: "op"}, Bundle: &catalog.Bundle{Name: "op.v2", Version: "2.0.0"}}
		return s
	}
	u.memory.Change("op", (*remembered).forgetContents)
	reads = 0
	for range 3 {
		was, err := pending().installedBundle(t.Context())
		require.NoError(t, err)
		require.Equal(t, "op.v1", was.CSV.Name)
	}
	require.Equal(t, 1, reads)
	require.NoError(t, u.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: u.contentMap().ObjectMeta}))
	u.memory.Change("op", (*remembered).forgetContents)
	reads = 0
	for range 3 {
		was, err := pending().installedBundle(t.Context())
		require.NoError(t, err)
		require.Nil(t, was)
	}
	require.Equal(t, 1, reads, "and none if it was not kept")
}

// The objects of an install can be as large as its content.
func TestWhatIsRememberedOfObjectsIsSmall(t *testing.T) {
	t.Parallel()
	u := givenUnit(t, interceptor.Funcs{})
	large := func(kind string) *unstructured.Unstructured {
		obj := apply.Reference(metav1.SchemeGroupVersion.WithKind(kind), "ns", "x")
		if kind == "Deployment" {
			obj.SetAPIVersion("apps/v1")
		}
		obj.Object["spec"] = map[string]any{"replicas": int64(3), "versions": make([]any, 100_000)}
		return obj
	}
	for _, kind := range []string{"CustomResourceDefinition", "Deployment"} {
		obj := large(kind)
		s := u.begin(extension("op"))
		s.steps, s.hash = []step.Step{{Object: obj}}, kind
		s.rememberProbed()
		got := u.memory.Get("op").probed[0]
		require.Less(t, budget.Of(got).Memory, int64(4<<10))
		require.Equal(t, keyOf(obj), keyOf(got))
		replicas, _, _ := unstructured.NestedInt64(got.Object, "spec", "replicas")
		require.Equal(t, kind == "Deployment", replicas == 3)
	}
}

// The cache of the program does not contain all of a large ClusterExtension.
func TestIncompleteExtensionsAreBlocked(t *testing.T) {
	t.Parallel()
	ext := extension("op", func(ext *olmv1.ClusterExtension) { budget.Refuse(ext, 20<<20) })
	u := givenUnit(t, interceptor.Funcs{}, ext)
	out, err := resolveBundle(t.Context(), u.begin(ext))
	require.NoError(t, err)
	require.Equal(t, olmv1.ReasonBlocked, out.progressing.Reason)
	require.Contains(t, string(out.message), "20.0 MiB of memory")
}
