package installplan

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// manyDeployments returns the demo's ClusterServiceVersion with the given number of Deployments.
func manyDeployments(n int) string {
	before, one, _ := strings.Cut(demoCSV, "      - name: demo\n")
	out := before
	for i := range n {
		out += fmt.Sprintf("      - name: demo-%03d\n%s", i, one)
	}
	return out
}

// A plan that tried and wrote all Deployments would occupy a worker for minutes.
func TestManyDeploymentsAreLeftToTheCSVController(t *testing.T) {
	t.Parallel()
	for n, writes := range map[int]int{deployment.MaxWritten: deployment.MaxWritten, deployment.MaxWritten + 1: 0, 1_000: 0} {
		w := newWorld(t, bundled(manyDeployments(n), demoCRD, demoConfigMap))
		got := w.reconcile()
		require.Equal(t, "Complete", string(got.phase), got.message)
		about := func(of []string, prefix string) int {
			return len(slices.DeleteFunc(of, func(r string) bool { return !strings.HasPrefix(r, prefix) }))
		}
		require.Equal(t, writes, about(got.writes, "acct: apply Deployment"))
		require.Equal(t, deployment.MaxWritten, about(w.Requests(), "acct: try Deployment"))
	}
}

// configMaps returns manifests of a bundle with many objects.
func configMaps(n int) []string {
	out := []string{demoCSV, demoCRD}
	for i := range n {
		out = append(out, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: defaults-%03d}, data: {a: "1"}}`, i))
	}
	return out
}

func TestLargePlansWaitForEachOther(t *testing.T) {
	t.Parallel()
	others := []types.NamespacedName{{Namespace: "a", Name: "install-a"}, {Namespace: "b", Name: "install-b"}}
	for _, row := range []struct {
		name      string
		manifests []string
		waits     bool
	}{
		{"a large plan", configMaps(largeSteps), true},
		{"any other plan", configMaps(largeSteps - 5), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, bundled(row.manifests...))
			for _, other := range others {
				require.True(t, w.r.large.begin(other))
			}
			got := w.reconcile()
			if !row.waits {
				require.Equal(t, "Complete", string(got.phase), got.message)
				return
			}
			require.Equal(t, "Installing", string(got.phase))
			require.Contains(t, got.message, "waiting until other large InstallPlans have been executed: this one has 105 objects")
			require.Empty(t, got.writes)
			require.NotContains(t, strings.Join(w.Requests(), "\n"), "acct: ", "a plan that waits sends nothing as the account")
			woken := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			t.Cleanup(woken.ShutDown)
			require.NoError(t, w.r.large.waker.Start(t.Context(), woken))
			w.r.large.end(others[0], false)
			require.Equal(t, 1, woken.Len(), "its turn has come")
			w.Before("acct: apply ConfigMap ns/defaults-000", func() {
				require.True(t, w.Has(w.plan))
				require.Empty(t, w.plan.Status.Message, "it no longer waits")
			})
			require.Equal(t, "Complete", string(w.reconcile().phase))
			require.Len(t, w.r.large.running, 1)
			require.Contains(t, w.r.large.running, others[1])
			require.Empty(t, w.r.large.line)
		})
	}
}

// Whoever may write an object can make it large, for example with managed fields.
func TestPlansWithLargeExistingObjectsWaitForLargeOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bundled(configMaps(3)...), func(w *world) { w.options.Accounts = fatAccounts{dependencies: dependencies{w}, kind: "ConfigMap"} })
	others := []types.NamespacedName{{Namespace: "a", Name: "install-a"}, {Namespace: "b", Name: "install-b"}}
	for _, other := range others {
		require.True(t, w.r.large.begin(other))
	}
	got := w.reconcile()
	require.Equal(t, "Installing", string(got.phase), got.message)
	require.Contains(t, got.message, "the objects of this one take much memory")
	require.Empty(t, got.failed)
	require.Empty(t, got.writes)
	woken := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(woken.ShutDown)
	require.NoError(t, w.r.large.waker.Start(t.Context(), woken))
	w.r.large.end(others[0], false)
	require.Equal(t, 1, woken.Len(), "its turn has come")
	got = w.reconcile()
	require.Contains(t, got.refused+got.message, "defaults-000", "the objects exist, and the plan does not own them")
	require.NotContains(t, w.r.large.running, client.ObjectKeyFromObject(w.plan))
}

// The Deployments of the plan's operators are read after its other objects.
func TestPlansWithLargeExistingDeploymentsWaitForLargeOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bundled(manyDeployments(5), demoCRD), func(w *world) { w.options.Accounts = fatAccounts{dependencies: dependencies{w}, kind: "Deployment"} })
	others := []types.NamespacedName{{Namespace: "a", Name: "install-a"}, {Namespace: "b", Name: "install-b"}}
	for _, other := range others {
		require.True(t, w.r.large.begin(other))
	}
	got := w.reconcile()
	require.Equal(t, "Installing", string(got.phase), got.message)
	require.Contains(t, got.message, "the objects of this one take much memory")
	require.Empty(t, got.writes)
}

// fatAccounts opens clients for which every object of a kind exists and takes 10 MiB.
type fatAccounts struct {
	dependencies
	kind string
}

func (f fatAccounts) For(ctx context.Context, account scoped.Account) (client.Client, error) {
	c, err := f.dependencies.For(ctx, account)
	return fatClient{c, f.kind}, err
}

type fatClient struct {
	client.Client
	kind string
}

func (c fatClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if obj.GetObjectKind().GroupVersionKind().Kind != c.kind {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	return obj.(json.Unmarshaler).UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"v1","kind":%q,"metadata":{"namespace":%q,"name":%q},"data":[%s{}]}`, c.kind, key.Namespace, key.Name, strings.Repeat(`{"":{}},`, 30_000)))
}

func (c fatClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if is, ok := obj.(interface{ GetKind() string }); ok && is.GetKind() == c.kind {
		return apierrors.NewConflict(schema.GroupResource{}, "", nil) // the dry run shows that the object exists
	}
	return c.Client.Apply(ctx, obj, opts...)
}

func TestLargePlansTakeTurnsInOrder(t *testing.T) {
	t.Parallel()
	name := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: fmt.Sprint("n", i)} }
	q := &largeQueue{clock: testclock.NewFakePassiveClock(time.Now())}
	for i := range 5 {
		require.Equal(t, i < largeAtOnce, q.begin(name(i)), i)
		q.end(name(9), false) // a small plan ends
	}
	q.end(name(0), false)
	require.False(t, q.begin(name(3)), "plan 2 has waited longer")
	require.True(t, q.begin(name(2)))
	q.end(name(3), false) // it now waits for a permission
	q.end(name(1), false)
	require.True(t, q.begin(name(4)))
	require.Empty(t, q.line)
}

// Otherwise, the second plan of a namespace, which gets no worker, would keep a place free for nothing.
func TestANamespaceExecutesOneLargePlanAtATime(t *testing.T) {
	t.Parallel()
	q := &largeQueue{clock: testclock.NewFakePassiveClock(time.Now())}
	plan := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	require.True(t, q.begin(plan("a", "1")))
	require.False(t, q.begin(plan("a", "2")))
	require.True(t, q.begin(plan("b", "1")), "the plan that waits longer cannot be executed now")
	require.False(t, q.begin(plan("c", "1")))
	q.end(plan("b", "1"), false)
	require.True(t, q.begin(plan("c", "1")))
	q.end(plan("a", "1"), false)
	require.True(t, q.begin(plan("a", "2")))
}

// A webhook of a tenant that does not answer delays each request of its plan by up to 30 seconds.
func TestASlowPlanMakesRoomForOthers(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakePassiveClock(time.Now())
	q := &largeQueue{clock: clock}
	plan := func(namespace string) types.NamespacedName { return types.NamespacedName{Namespace: namespace} }
	pass := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	for _, slow := range []string{"a", "b"} {
		require.True(t, q.begin(plan(slow)))
	}
	pass(largeTurn)
	require.False(t, q.isOver(plan("a")), "none waits")
	require.False(t, q.begin(plan("c")))
	for _, slow := range []string{"a", "b"} {
		require.True(t, q.isOver(plan(slow)))
		require.True(t, q.isOver(plan(slow)))
		q.end(plan(slow), true)
	}
	require.True(t, q.begin(plan("c")))
	require.True(t, q.begin(plan("a")), "in the place of slow namespaces")
	require.False(t, q.begin(plan("b")), "there is one")
	require.True(t, q.begin(plan("d")), "the other place is free")
	require.False(t, q.begin(plan("e")))
	pass(2 * largeTurn)
	require.False(t, q.isOver(plan("a")), "its turn is longer")
	require.False(t, q.isOver(plan("small")), "not in the queue")
	q.end(plan("c"), false)
	require.True(t, q.begin(plan("e")))
	q.end(plan("d"), false)
	require.False(t, q.begin(plan("b")))
	q.end(plan("a"), false)
	require.True(t, q.begin(plan("b")))
	q.end(plan("b"), false)
	pass(slowTime)
	require.True(t, q.begin(plan("a")), "the place of others")
	require.False(t, q.begin(plan("f")))
	pass(largeTurn)
	require.True(t, q.isOver(plan("a")))
	require.Len(t, q.slow, 1, "b is no longer slow")
}

// The plans of slow namespaces that take the longest could otherwise have the place for good.
func TestSlowPlansTakeTurns(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakePassiveClock(time.Now())
	plan := func(namespace string) types.NamespacedName { return types.NamespacedName{Namespace: namespace} }
	pass := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	q := &largeQueue{clock: clock, slow: map[string]slowness{}}
	for _, slow := range []string{"a", "b", "c"} {
		q.slow[slow] = slowness{until: clock.Now().Add(slowTime), turn: slowTurn}
	}
	require.True(t, q.begin(plan("a")))
	pass(slowTurn)
	require.False(t, q.isOver(plan("a")), "none waits")
	require.False(t, q.begin(plan("b")))
	require.True(t, q.begin(plan("fast")))
	require.False(t, q.isOver(plan("fast")), "its turn has begun")
	require.True(t, q.isOver(plan("a")))
	q.end(plan("a"), true)
	require.True(t, q.begin(plan("b")))
	require.False(t, q.begin(plan("c")))
	pass(slowTurn - time.Second)
	require.False(t, q.isOver(plan("b")))
	pass(time.Second)
	require.True(t, q.isOver(plan("b")))
	q.end(plan("b"), true)
	require.False(t, q.begin(plan("a")), "c has had no turn")
	require.True(t, q.begin(plan("c")))
	q.end(plan("c"), false)
	require.True(t, q.begin(plan("a")), "it came before b")
	pass(slowTurn)
	require.False(t, q.isOver(plan("a")), "its turn is longer now")
	pass(slowTurn)
	require.True(t, q.isOver(plan("a")))
	q.end(plan("a"), true)
	for range 3 {
		for _, slow := range []string{"b", "a"} {
			require.True(t, q.begin(plan(slow)))
			pass(maxSlowTurn)
			require.True(t, q.isOver(plan(slow)))
			q.end(plan(slow), true)
		}
	}
	pass(slowTime)
	require.True(t, q.begin(plan("b")))
	require.False(t, q.running[plan("b")].slow)

	until := clock.Now().Add(slowTime)
	q = &largeQueue{clock: clock, slow: map[string]slowness{"a": {until: until, turn: slowTurn}, "b": {until: until, turn: slowTurn}}}
	require.True(t, q.begin(plan("a")))
	require.False(t, q.begin(plan("b")))
	require.True(t, q.begin(plan("fast")))
	pass(largeTurn)
	require.False(t, q.isOver(plan("fast")), "no other such plan waits")
}

// A tenant can have plans in many slow namespaces, each of which ends within its turn, so that the next turn is not longer.
func TestSlowPlansWithShortTurnsDoNotPrecedeOthersForever(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakePassiveClock(time.Now())
	q := &largeQueue{clock: clock, slow: map[string]slowness{"own": {until: clock.Now().Add(slowTime), turn: maxSlowTurn, used: slowTurn}}}
	theirs := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: fmt.Sprint("n", i%5), Name: fmt.Sprint(i)}
	}
	for i := range 5 {
		q.slow[theirs(i).Namespace] = slowness{until: clock.Now().Add(slowTime), turn: slowTurn}
	}
	for i := range 150 {
		require.Equal(t, i < slowAtOnce, q.begin(theirs(i)))
	}
	own := types.NamespacedName{Namespace: "own"}
	require.False(t, q.begin(own))
	for waited := time.Duration(0); ; {
		require.LessOrEqual(t, waited, 2*5*slowTurn, "none gets another turn after it had more than the plan")
		var running types.NamespacedName
		for running = range q.running {
			break
		}
		clock.SetTime(clock.Now().Add(slowTurn - time.Second))
		waited += slowTurn - time.Second
		require.False(t, q.isOver(running))
		q.end(running, false)
		next := q.ready()[0].NamespacedName
		require.True(t, q.begin(next))
		if next == own {
			break
		}
	}
}

func TestNamespacesThatBecomeSlowDoNotPrecedeOthers(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakePassiveClock(time.Now())
	q := &largeQueue{clock: clock, slow: map[string]slowness{}}
	plan := func(namespace string) types.NamespacedName { return types.NamespacedName{Namespace: namespace} }
	for _, slow := range []string{"runs", "own"} {
		q.slow[slow] = slowness{until: clock.Now().Add(slowTime), turn: slowTurn, used: 3 * slowTurn}
	}
	require.True(t, q.begin(plan("runs")))
	require.False(t, q.begin(plan("own")))
	require.True(t, q.begin(plan("new")))
	require.True(t, q.begin(plan("other")))
	require.False(t, q.begin(plan("waits")))
	clock.SetTime(clock.Now().Add(largeTurn))
	require.True(t, q.isOver(plan("new")))
	q.end(plan("new"), true)
	q.end(plan("runs"), false)
	require.False(t, q.begin(plan("new")), "own has waited longer")
	require.True(t, q.begin(plan("own")))
}

// A tenant can keep all workers of a namespace busy, so that none is left for a plan that is woken.
func TestNoPlaceIsKeptForAPlanThatDoesNotCome(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakePassiveClock(time.Now())
	var timers []func()
	q := &largeQueue{clock: clock, later: func(d time.Duration, f func()) {
		require.Equal(t, offerTime, d)
		timers = append(timers, f)
	}}
	woken := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(woken.ShutDown)
	require.NoError(t, q.waker.Start(t.Context(), woken))
	plan := func(namespace string) types.NamespacedName { return types.NamespacedName{Namespace: namespace} }
	next := func() (out []string) {
		for woken.Len() > 0 {
			req, _ := woken.Get()
			woken.Done(req)
			out = append(out, req.Namespace)
		}
		return out
	}
	fire := func() {
		clock.SetTime(clock.Now().Add(offerTime))
		f := timers[0]
		timers = timers[1:]
		f()
	}
	for _, running := range []string{"a", "b"} {
		require.True(t, q.begin(plan(running)))
	}
	for _, waits := range []string{"c", "d", "e", "f"} {
		require.False(t, q.begin(plan(waits)))
	}
	q.end(plan("a"), false)
	q.end(plan("b"), false)
	require.Equal(t, []string{"c", "d"}, next())
	require.False(t, q.begin(plan("e")), "the places are kept for a moment")
	require.Len(t, timers, 2)
	fire()
	require.Equal(t, []string{"e", "f"}, next())
	require.True(t, q.begin(plan("e")))
	require.True(t, q.begin(plan("c")), "it came, and has waited longest")
	require.False(t, q.begin(plan("f")))
	require.Empty(t, next())
	q.end(plan("e"), false)
	require.Equal(t, []string{"f"}, next(), "it came, and is before d, which did not")
	require.True(t, q.begin(plan("f")))
	q.end(plan("f"), false)
	clock.SetTime(clock.Now().Add(largeTurn))
	require.False(t, q.isOver(plan("c")), "only a plan that does not come waits")
	q.end(plan("c"), false)
	require.Empty(t, next(), "d was woken")
	require.True(t, q.begin(plan("d")))
	require.Empty(t, q.line)
}

// costlyConfigMap returns a manifest whose object takes about 14 MiB of memory.
func costlyConfigMap(i int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"costly-%d"},"unknown":[%s]}`,
		i, strings.TrimSuffix(strings.Repeat("{},", 50_000), ","))
}

// A worker holds the objects of its plan until it has executed the plan.
func TestPlansThatTakeMuchMemoryWaitForEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bundled(demoCSV, demoCRD, costlyConfigMap(1), costlyConfigMap(2)))
	others := []types.NamespacedName{{Namespace: "a", Name: "install-a"}, {Namespace: "b", Name: "install-b"}}
	for _, other := range others {
		require.True(t, w.r.large.begin(other))
	}
	got := w.reconcile()
	require.Equal(t, "Installing", string(got.phase))
	require.Contains(t, got.message, "waiting until other large InstallPlans have been executed: the objects of this one take much memory")
	w.r.large.end(others[0], false)
	w.Before("acct: apply ConfigMap ns/costly-1", func() {
		require.Len(t, w.r.large.running, 2)
		require.True(t, w.r.large.begin(types.NamespacedName{Namespace: "ns", Name: w.plan.Name}), "it is being executed")
	})
	got = w.reconcile()
	require.Equal(t, "Complete", string(got.phase), got.message)
	require.Len(t, w.r.large.running, 1)
}

// A webhook that does not answer makes a plan with few objects take as long as a large one.
func TestASmallPlanThatTakesLongWaitsForLargeOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bundled(configMaps(5)...))
	clock, ok := w.options.Clock.(*testclock.FakePassiveClock)
	require.True(t, ok)
	others := []types.NamespacedName{{Namespace: "a", Name: "install-a"}, {Namespace: "b", Name: "install-b"}}
	for _, other := range others {
		require.True(t, w.r.large.begin(other))
	}
	w.Before("acct: apply ConfigMap ns/defaults-002", func() { clock.SetTime(clock.Now().Add(largeTurn)) })
	got := w.reconcile()
	require.Contains(t, got.message, "waiting until other large InstallPlans have been executed: the objects of this one take much memory, or long to write")
	require.Contains(t, got.writes, "acct: apply ConfigMap ns/defaults-002")
	require.NotContains(t, got.writes, "acct: apply ConfigMap ns/defaults-003")
	got = w.reconcile()
	require.Empty(t, got.writes, "it waits from the beginning")
	require.Contains(t, got.message, "waiting until other large InstallPlans have been executed")
	w.r.large.end(others[0], false)
	require.Equal(t, "Complete", string(w.reconcile().phase))
	require.NotContains(t, w.r.large.running, client.ObjectKeyFromObject(w.plan))
	require.Empty(t, w.r.large.line)
}

func TestAnInterruptedPlanResumes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		at, next string
		refused  bool // before, so that the plan reads the objects first
	}{
		"objects that may exist are tried":   {"acct: try ConfigMap ns/defaults-050", "acct: try ConfigMap ns/defaults-051", true},
		"new objects are tried, in parallel": {"acct: try ConfigMap ns/defaults-050", "acct: try ConfigMap ns/defaults-070", false},
		"objects are written":                {"acct: apply ConfigMap ns/defaults-050", "acct: apply ConfigMap ns/defaults-051", false},
		"Deployments are tried":              {"acct: try Deployment ns/demo-000", "acct: try Deployment ns/demo-001", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifests := configMaps(largeSteps)
			manifests[0] = manyDeployments(2)
			w := newWorld(t, bundled(manifests...))
			if row.refused {
				require.True(t, w.Has(w.plan))
				w.plan.Status.SetCondition(operatorsv1alpha1.InstallPlanCondition{Type: typeObjectsRefused, Status: corev1.ConditionTrue})
				w.Put(w.plan)
			}
			clock, ok := w.options.Clock.(*testclock.FakePassiveClock)
			require.True(t, ok)
			other := types.NamespacedName{Namespace: "other", Name: "install-other"}
			interrupted := make(chan struct{})
			if name == "new objects are tried, in parallel" {
				for i := 51; i < 70; i++ { // otherwise, the others could all be tried before the clock is set
					w.Before(fmt.Sprintf("acct: try ConfigMap ns/defaults-%03d", i), func() { <-interrupted })
				}
			}
			w.Before(row.at, func() {
				defer close(interrupted)
				clock.SetTime(clock.Now().Add(largeTurn))
				require.True(t, w.r.large.begin(types.NamespacedName{Namespace: "second"}))
				require.False(t, w.r.large.begin(other))
			})
			got := w.reconcile()
			require.Equal(t, "Installing", string(got.phase))
			require.Contains(t, got.message, "waiting until other large InstallPlans have been executed")
			sent := append(got.writes, w.Requests()...)
			require.Contains(t, sent, row.at)
			require.NotContains(t, sent, row.next)
			require.Len(t, w.r.large.line, 2)
			require.True(t, w.r.large.begin(other))
			require.Equal(t, "Complete", string(w.reconcile().phase))
		})
	}
}

func TestPlansReportTheirProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bundled(configMaps(20)...))
	clock, ok := w.options.Clock.(*testclock.FakePassiveClock)
	require.True(t, ok)
	var told []string
	for i := range 20 {
		w.Before(fmt.Sprintf("acct: apply ConfigMap ns/defaults-%03d", i), func() {
			clock.SetTime(clock.Now().Add(saveInterval / 4))
			require.True(t, w.Has(w.plan))
			told = append(told, w.plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled).Message)
		})
	}
	require.Equal(t, "Complete", string(w.reconcile().phase))
	require.Equal(t, []string{"", "7 of 25 objects have been written", "11 of 25 objects have been written", "15 of 25 objects have been written", "19 of 25 objects have been written"}, slices.Compact(told))
}

// A tenant may have as many plans as Subscriptions.
func TestNamespacesWithManyLargePlansAreServedInTurns(t *testing.T) {
	t.Parallel()
	q := &largeQueue{clock: testclock.NewFakePassiveClock(time.Now())}
	theirs := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: fmt.Sprint("n", i%5), Name: fmt.Sprint(i)}
	}
	for i := range 150 {
		require.Equal(t, i < largeAtOnce, q.begin(theirs(i)))
	}
	own := types.NamespacedName{Namespace: "own"}
	require.False(t, q.begin(own))
	for served := 0; ; served++ {
		require.Less(t, served, 5, "at most one plan of each other namespace is served before")
		var running types.NamespacedName
		for running = range q.running {
			break
		}
		q.end(running, false)
		next := q.ready()[0].NamespacedName
		require.True(t, q.begin(next))
		if next == own {
			break
		}
	}
	for i := range 2 * maxServed {
		q.noteServed(fmt.Sprint("other", i))
	}
	require.LessOrEqual(t, len(q.served), maxServed)
}

// Others can make the existing objects of a plan large. All of them are read before the first one is written.
func TestWrittenObjectsAreNotKept(t *testing.T) {
	t.Parallel()
	s := &run{plan: &operatorsv1alpha1.InstallPlan{}}
	for _, kind := range []string{"ConfigMap", "ServiceAccount", operatorsv1alpha1.ClusterServiceVersionKind} {
		obj := apply.Reference(schema.GroupVersionKind{Group: operatorsv1alpha1.GroupName, Version: "v1alpha1", Kind: kind}, "ns", "x")
		obj.SetUID("1")
		obj.SetAnnotations(map[string]string{"large": "x"})
		s.states = append(s.states, execute.State{Step: step.Step{Object: obj}, Live: obj.DeepCopy()})
	}
	s.states[1].Live = nil
	s.plan.Status.Plan = []*operatorsv1alpha1.Step{{}, {}, {}}
	for i := range s.states {
		s.finish(i, execute.Done{Live: s.states[i].Step.Object})
		require.Nil(t, s.states[i].Live)
	}
	require.Empty(t, s.done[0].Live.GetAnnotations())
	require.Equal(t, types.UID("1"), s.done[0].Live.GetUID())
	require.True(t, s.done[0].existed)
	require.False(t, s.done[1].existed)
	for _, needed := range s.done[1:] {
		require.NotEmpty(t, needed.Live.GetAnnotations())
	}
}
