package fairqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/journal"
	slots "github.com/remit-olm/remit/pkg/lib/turns"
)

func groupOf(item string) string { g, _, _ := strings.Cut(item, "/"); return g }

func newQueue(l Limits) workqueue.TypedRateLimitingInterface[string] {
	return New("", workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute), groupOf, l)
}

func add(q workqueue.TypedInterface[string], items ...string) {
	for _, item := range items {
		q.Add(item)
	}
}

// take gets n items from the queue. It blocks if fewer are available.
func take(t *testing.T, q workqueue.TypedRateLimitingInterface[string], n int) []string {
	t.Helper()
	var out []string
	for range n {
		item, down := q.Get()
		require.False(t, down)
		out = append(out, item)
	}
	return out
}

func TestNamespacesTakeTurns(t *testing.T) {
	q := newQueue(Limits{Workers: 100, Share: 100})
	defer q.ShutDown()
	add(q, "a/1", "a/2", "a/3", "a/4", "b/1", "c/1", "c/2")
	require.Equal(t, []string{"a/1", "b/1", "c/1", "a/2", "c/2", "a/3", "a/4"}, take(t, q, 7))
}

func TestANamespaceUsesAtMostItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Limits{Workers: 8, Share: 2})
		for i := range 10 {
			q.Add(fmt.Sprintf("a/%d", i))
		}
		take(t, q, 2)
		require.Equal(t, 8, q.Len(), "unavailable items are counted as waiting")
		got := make(chan string)
		go func() {
			item, _ := q.Get()
			got <- item
		}()
		synctest.Wait()
		require.Empty(t, got, "a third worker waits")
		q.Add("b/1")
		require.Equal(t, "b/1", <-got, "another namespace gets the worker")
		q.Done("a/0")
		require.Equal(t, []string{"a/2"}, take(t, q, 1))
		q.ShutDown()
	})
}

func TestSlowNamespacesUseHalfOfTheWorkers(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	turns := newTurns(groupOf, Limits{Workers: 4, Share: 2, Clock: clock})
	turns.Push("d/0")
	turns.release(turns.Pop())
	groups := []string{"a", "b", "c"}
	for _, g := range groups {
		turns.Push(g + "/0")
		require.Equal(t, g+"/0", turns.Pop())
		clock.Step(Slow + 1)
		turns.release(g + "/0")
	}
	for _, g := range groups {
		turns.Push(g + "/0")
	}
	require.Equal(t, []string{"a/0", "b/0"}, []string{turns.Pop(), turns.Pop()})
	require.Zero(t, turns.Len(), "the other items wait")
	turns.Push("d/0")
	turns.Push("d/1")
	require.Equal(t, []string{"d/0", "d/1"}, []string{turns.Pop(), turns.Pop()}, "two workers are left for quick namespaces")
	turns.release("a/0")
	require.Equal(t, "c/0", turns.Pop())
}

func TestASlowNamespaceRecovers(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	turns := newTurns(groupOf, Limits{Workers: 4, Share: 2, Clock: clock})
	turns.Push("a/0")
	turns.Pop()
	clock.Step(Slow + 1)
	turns.release("a/0")
	clock.Step(SlowFor + 1)
	turns.Push("a/0")
	turns.Push("a/1")
	require.Equal(t, []string{"a/0", "a/1"}, []string{turns.Pop(), turns.Pop()})
}

func TestRunningItemsCountAsSlow(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	turns := newTurns(groupOf, Limits{Workers: 8, Share: 1, Clock: clock})
	turns.Push("slow/0")
	turns.Pop()
	clock.Step(Slow + 1)
	turns.release("slow/0")
	for i := range 4 {
		turns.Push(fmt.Sprintf("new%d/0", i))
		turns.Pop()
	}
	turns.Push("slow/0")
	require.Equal(t, 1, turns.Len(), "no namespace is slow yet")
	clock.Step(Slow + 1)
	require.Zero(t, turns.Len(), "running items occupy half of the workers")
	turns.release("new0/0")
	require.Equal(t, "slow/0", turns.Pop())
}

// New namespaces, each with one item that takes six minutes, must not use the last quarter of the workers.
func TestTheLastQuarterIsForQuickNamespaces(t *testing.T) {
	for workers, most := range map[int]int{1: 1, 2: 1, 4: 3, 8: 6, 16: 12} {
		clock := clocktesting.NewFakeClock(time.Now())
		turns := newTurns(groupOf, Limits{Workers: workers, Share: 1, Clock: clock})
		turns.Push("honest/0")
		turns.release(turns.Pop())
		for round := range 6 {
			var working []string
			for i := range workers {
				turns.Push(fmt.Sprintf("hostile%d.%d/0", round, i))
			}
			for turns.Len() > 0 {
				working = append(working, turns.Pop())
			}
			require.LessOrEqual(t, len(working), most, "%d workers, round %d", workers, round)
			if most < workers {
				turns.Push("honest/0")
				require.Equal(t, 1, turns.Len(), "%d workers, round %d", workers, round)
				require.Equal(t, "honest/0", turns.Pop())
				turns.release("honest/0")
			}
			clock.Step(6 * time.Minute)
			for _, item := range working {
				turns.release(item)
			}
		}
	}
}

func TestANamespaceIsSlowForTenTimesTheDuration(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		2 * time.Second:  SlowFor,
		6 * time.Minute:  time.Hour,
		ReconcileTimeout: 100 * time.Minute,
		time.Hour:        SlowForMost,
	} {
		clock := clocktesting.NewFakeClock(time.Now())
		turns := newTurns(groupOf, Limits{Workers: 4, Share: 1, Clock: clock})
		turns.Push("a/0")
		turns.Pop()
		clock.Step(took)
		turns.release("a/0")
		clock.Step(want - time.Second)
		require.Equal(t, slow, turns.classOf(&group[string]{name: "a"}), took)
		turns.Push("a/0")
		turns.release(turns.Pop())
		clock.Step(2 * time.Second)
		require.Equal(t, unknown, turns.classOf(&group[string]{name: "a"}), "a quick item does not make a slow namespace quick")
	}
}

// The share of the workers is two, so that a namespace with a slow item could get another worker.
func TestARunningItemMakesItsNamespaceSlow(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	turns := newTurns(groupOf, Limits{Workers: 4, Share: 2, Clock: clock})
	for _, g := range []string{"a", "b", "honest"} {
		turns.Push(g + "/0")
		turns.release(turns.Pop())
	}
	for _, item := range []string{"a/0", "b/0", "a/1", "b/1"} {
		turns.Push(item)
	}
	require.Equal(t, []string{"a/0", "b/0"}, []string{turns.Pop(), turns.Pop()})
	require.Equal(t, 2, turns.Len())
	clock.Step(Slow + 1)
	require.Zero(t, turns.Len(), "the namespaces are not quick any more, and use half of the workers")
	turns.Push("a/2")
	require.Zero(t, turns.Len())
	turns.Push("honest/1")
	turns.Push("honest/2")
	require.Equal(t, 1, turns.Len())
	require.Equal(t, []string{"honest/1", "honest/2"}, []string{turns.Pop(), turns.Pop()})
	turns.release("a/0")
	require.Equal(t, 2, turns.Len())
	require.Equal(t, "b/1", turns.Pop())
	require.Zero(t, turns.Len())
}

// Forty namespaces have a quick item before each slow one, so that several of them could occupy all workers again and again.
func TestQuickNamespacesRarelyOccupyAllWorkers(t *testing.T) {
	const hostile, takes, rounds = 40, 30 * time.Second, 240
	for _, workers := range []int{4, 8} {
		clock := clocktesting.NewFakeClock(time.Now())
		turns := newTurns(groupOf, Limits{Workers: workers, Share: 1, Clock: clock})
		work := func(took time.Duration) (items []string) {
			for turns.Len() > 0 && len(turns.taken) < workers {
				items = append(items, turns.Pop())
			}
			clock.Step(took)
			return items
		}
		finish := func() {
			for item := range turns.taken {
				turns.release(item)
			}
			for len(turns.groups) > 0 {
				for _, item := range work(0) {
					turns.release(item)
				}
			}
		}
		waited := 0
		for range rounds {
			turns.Push("honest/quick")
			for i := range hostile {
				turns.Push(fmt.Sprintf("hostile%d/quick", i))
			}
			finish()
			for i := range hostile {
				turns.Push(fmt.Sprintf("hostile%d/slow", i))
			}
			work(takes)
			turns.Push("honest/1")
			if !slices.Contains(work(0), "honest/1") {
				waited++
			}
			finish()
		}
		require.LessOrEqual(t, waited, hostile/(workers/4), "%d workers: rounds of %d in which a quick namespace waited", workers, rounds)
	}
}

func TestAShorterItemDoesNotMakeANamespaceSlowForAShorterTime(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	turns := newTurns(groupOf, Limits{Workers: 4, Share: 1, Clock: clock})
	for _, took := range []time.Duration{6 * time.Minute, 2 * time.Second} {
		turns.Push("a/0")
		turns.Pop()
		clock.Step(took)
		turns.release("a/0")
	}
	clock.Step(50 * time.Minute)
	require.Equal(t, slow, turns.classOf(&group[string]{name: "a"}))
	clock.Step(22 * time.Hour)
	turns.Push("a/0")
	turns.release(turns.Pop())
	require.Equal(t, unknown, turns.classOf(&group[string]{name: "a"}), "the namespace is not quick for 240 times as long")
	clock.Step(2 * time.Hour)
	turns.Push("a/0")
	turns.release(turns.Pop())
	require.Equal(t, quick, turns.classOf(&group[string]{name: "a"}))
}

// Each record of a quick item stays in memory for QuickFor.
func TestQuickItemsAreRecordedAtIntervals(t *testing.T) {
	for again, want := range map[time.Duration]class{time.Second: unknown, quickAgain - time.Second: unknown, quickAgain: quick} {
		clock := clocktesting.NewFakeClock(time.Now())
		turns := newTurns(groupOf, Limits{Workers: 4, Share: 1, Clock: clock})
		turns.Push("a/0")
		turns.release(turns.Pop())
		clock.Step(again)
		turns.Push("a/0")
		turns.release(turns.Pop())
		clock.Step(QuickFor - again - time.Second)
		require.Equal(t, quick, turns.classOf(&group[string]{name: "a"}))
		clock.Step(2 * time.Second)
		require.Equal(t, want, turns.classOf(&group[string]{name: "a"}), again)
	}
}

// Each release is followed by only one Get. If a release made two items available, one of them would wait even though
// workers are idle.
func TestAReleaseMakesOneMoreItemAvailable(t *testing.T) {
	turns := newTurns(groupOf, Limits{Workers: 4, Share: 1, Clock: clocktesting.NewFakeClock(time.Now())})
	for _, item := range []string{"a/0", "b/0", "c/0", "a/1", "x/0"} {
		turns.Push(item)
	}
	for range 3 {
		turns.Pop()
	}
	require.Zero(t, turns.Len())
	turns.release("a/0")
	turns.Pop()
	require.Zero(t, turns.Len(), "namespace a is quick, but its next item only replaces the released one")
	turns.Push("a/2")
	require.Equal(t, 1, turns.Len(), "a Push wakes another worker")
}

func TestSlowAndQuickNamespacesTakeTurns(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	turns := newTurns(groupOf, Limits{Workers: 4, Share: 1, Clock: clock})
	turns.Push("slow/0")
	turns.Pop()
	clock.Step(Slow + 1)
	turns.release("slow/0")
	for i := range 6 {
		turns.Push(fmt.Sprintf("quick%d/0", i))
	}
	turns.Push("slow/1")
	first := []string{turns.Pop(), turns.Pop()}
	require.Contains(t, first, "slow/1", "quick namespaces do not starve slow ones")
}

func TestForgetsNamespacesWithoutItems(t *testing.T) {
	turns := newTurns(groupOf, Limits{Workers: 4, Share: 2, Clock: clocktesting.NewFakeClock(time.Now())})
	for i := range 100 {
		turns.Push(fmt.Sprintf("n%d/0", i))
	}
	for range 100 {
		turns.release(turns.Pop())
	}
	require.Empty(t, turns.groups)
	require.Empty(t, turns.taken)
	require.Zero(t, turns.Len()+turns.items)
	for _, ring := range turns.rings {
		require.Zero(t, ring.Len())
	}
}

func TestAnItemAddedDuringProcessingIsProcessedAgain(t *testing.T) {
	q := newQueue(Limits{Workers: 4, Share: 1})
	defer q.ShutDown()
	add(q, "a/1", "a/1", "a/2")
	require.Equal(t, []string{"a/1"}, take(t, q, 1), "once")
	q.Add("a/1")
	q.Done("a/1")
	require.Equal(t, []string{"a/2"}, take(t, q, 1))
	q.Done("a/2")
	require.Equal(t, []string{"a/1"}, take(t, q, 1))
}

func TestAppliesDelaysAndRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Limits{Workers: 4, Share: 1})
		start := time.Now()
		q.AddRateLimited("a/1")
		q.AddAfter("b/1", 500*time.Millisecond)
		require.Equal(t, []string{"b/1", "a/1"}, take(t, q, 2))
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, 1, q.NumRequeues("a/1"))
		q.ShutDown()
	})
}

func TestShutdownDrainsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Limits{Workers: 4, Share: 1})
		add(q, "a/1", "a/2", "a/3")
		var mu sync.Mutex
		var done []string
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for {
					item, down := q.Get()
					if down {
						return
					}
					time.Sleep(time.Second)
					mu.Lock()
					done = append(done, item)
					mu.Unlock()
					q.Done(item)
				}
			})
		}
		synctest.Wait()
		q.ShutDown()
		workers.Wait()
		require.Equal(t, []string{"a/1", "a/2", "a/3"}, done)
	})
}

// All workers process items that are added at random.
func TestProcessesEverythingWithinTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limits{Workers: 6, Share: 2}
		q := newQueue(l)
		p := &pool{working: map[string]int{}, seen: map[string]int{}}
		var workers sync.WaitGroup
		for range l.Workers {
			workers.Go(func() { p.work(q) })
		}
		random := rand.New(rand.NewPCG(1, 2))
		want := map[string]bool{}
		for range 2000 {
			item := fmt.Sprintf("n%d/%d", random.IntN(9), random.IntN(30))
			want[item] = true
			q.Add(item)
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		time.Sleep(time.Hour)
		require.Zero(t, q.Len())
		q.ShutDown()
		workers.Wait()
		require.Len(t, p.seen, len(want))
		require.LessOrEqual(t, p.most, l.Share)
	})
}

type pool struct {
	mu      sync.Mutex
	working map[string]int
	seen    map[string]int
	most    int
}

func (p *pool) work(q workqueue.TypedInterface[string]) {
	for {
		item, down := q.Get()
		if down {
			return
		}
		p.mu.Lock()
		p.working[groupOf(item)]++
		p.most = max(p.most, p.working[groupOf(item)])
		p.seen[item]++
		took := time.Duration(len(item)*p.seen[item]%7) * 300 * time.Millisecond // some are slow
		p.mu.Unlock()
		time.Sleep(took)
		p.mu.Lock()
		p.working[groupOf(item)]--
		p.mu.Unlock()
		q.Done(item)
	}
}

func TestNamespaceOf(t *testing.T) {
	for key, want := range map[types.NamespacedName]string{
		{Namespace: "a", Name: "x"}: "a",
		{Name: "a"}:                 "a",
	} {
		require.Equal(t, want, NamespaceOf(reconcile.Request{NamespacedName: key}))
	}
}

// A namespace that waited for others is not slow, but cannot use the last workers either, since its items occupied a worker.
func TestWaitsForOthersDoNotMakeANamespaceSlow(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	waited := map[any]time.Duration{"a/1": 5 * time.Second, "b/1": 3 * time.Second}
	turns := newTurns(groupOf, Limits{Workers: 4, Share: 1, Clock: clock, Waited: func(item any) time.Duration { return waited[item] }})
	for _, item := range []string{"a/0", "a/1", "b/1"} {
		turns.Push(item)
		require.Equal(t, item, turns.Pop())
		if item != "a/0" {
			clock.Step(5*time.Second + 500*time.Millisecond)
		}
		turns.release(item)
	}
	require.Equal(t, unknown, turns.classOf(&group[string]{name: "a"}))
	require.Equal(t, slow, turns.classOf(&group[string]{name: "b"}), "it took 2.5 seconds itself")
	turns.Push("a/2")
	turns.Pop()
	turns.release("a/2")
	require.Equal(t, unknown, turns.classOf(&group[string]{name: "a"}))
	clock.Step(distrustTimes * 6 * time.Second)
	turns.Push("a/3")
	turns.Pop()
	turns.release("a/3")
	require.Equal(t, quick, turns.classOf(&group[string]{name: "a"}))
}

func TestReconcilesReportTheirWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, waits := &slots.Turns{Slots: 1, Share: 1}, &Waits{}
		other, _, err := all.Join(t.Context(), "other")
		require.NoError(t, err)
		time.AfterFunc(5*time.Second, other.Leave)
		req := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: "1"}}
		_, err = waits.Measure(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			turn, _, err := all.Join(ctx, "a")
			turn.Leave()
			return reconcile.Result{}, err
		})).Reconcile(t.Context(), req)
		require.NoError(t, err)
		queue := Options(nil, 4, nil, waits).NewQueue("", RetryLimiter(time.Minute))
		defer queue.ShutDown()
		queue.Add(req)
		queue.Get()
		queue.Done(req)
		require.Zero(t, waits.take(req), "the queue has taken the wait into account")
	})
}

// With turns of ten minutes, those that need several short ones would wait for hours.
func TestOfSlowNamespacesTheOneThatTookLeastIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Limits{Workers: 4, Share: 1})
		defer q.ShutDown()
		for group, took := range map[string]time.Duration{"a": time.Minute, "b": 2 * time.Second, "c": 10 * time.Second} {
			q.Add(group + "/1")
			take(t, q, 1)
			time.Sleep(took)
			q.Done(group + "/1")
		}
		add(q, "a/2", "c/2", "b/2")
		require.Equal(t, []string{"b/2", "c/2"}, take(t, q, 2), "slow groups use half of the workers")
		q.Done("b/2")
		add(q, "b/3")
		require.Equal(t, []string{"b/3"}, take(t, q, 1))
		time.Sleep(2 * time.Minute)
		q.Done("b/3")
		add(q, "b/4")
		require.Equal(t, []string{"a/2"}, take(t, q, 1))
	})
}

// A group that was slow for long comes after others for a limited time, and a group with a new name does not come before those that wait.
func TestTheUsageOfSlowNamespacesDecays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Limits{Workers: 2, Share: 1})
		defer q.ShutDown()
		slowly := func(group string, took time.Duration) {
			q.Add(group + "/1")
			take(t, q, 1)
			time.Sleep(took)
			q.Done(group + "/1")
		}
		slowly("honest", time.Hour)
		slowly("a", 8*time.Minute)
		time.Sleep(20 * time.Minute) // the hour has become 11 minutes, and the 8 minutes 2
		slowly("a", 10*time.Minute)
		add(q, "a/2", "honest/2")
		require.Equal(t, []string{"honest/2"}, take(t, q, 1))
		q.Done("honest/2")

		slowly("b", 2*time.Second)
		add(q, "b/2")
		require.Equal(t, []string{"a/2"}, take(t, q, 1), "b had a new name, and counts like a")
		q.Done("a/2")
	})
}

// ended returns the journal of a process after n processes ended while they worked on an item.
func ended(t *testing.T, path string, n int, item journal.Item) *journal.Journal {
	t.Helper()
	for range n {
		j, err := journal.Open(path, clock.RealClock{})
		require.NoError(t, err)
		time.Sleep(j.Wait(item))
		require.Zero(t, j.Begin(item))
	}
	j, err := journal.Open(path, clock.RealClock{})
	require.NoError(t, err)
	return j
}

// turnsOf returns the storage of a queue.
func turnsOf(q any) *turns[reconcile.Request] { return q.(*recorded[reconcile.Request]).turns }

// manager is a manager with a journal.
type manager struct{ journal *journal.Journal }

func (m manager) Journal() *journal.Journal { return m.journal }

func (m manager) Group(_ string, req reconcile.Request) string { return NamespaceOf(req) }

func TestWhatEndedTheProgramWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) {
		j := ended(t, path, 2, journal.Item{Group: "a", Name: "csv/a/1"})
		q := Options(manager{j}, 8, nil).NewQueue("csv", RetryLimiter(time.Minute))
		defer q.ShutDown()
		of := func(namespace, name string) reconcile.Request {
			return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
		}
		began := time.Now()
		for _, req := range []reconcile.Request{of("a", "1"), of("a", "2"), of("b", "1"), of("", "c")} {
			q.Add(req)
		}
		for _, want := range []reconcile.Request{of("b", "1"), of("", "c")} {
			got, _ := q.Get()
			require.Equal(t, want, got)
			require.Zero(t, time.Since(began), "other namespaces do not wait")
			q.Done(got)
		}
		_, isQuick := turnsOf(q).quickGroups.Get("a")
		require.False(t, isQuick, "a suspended namespace has done nothing")
		for range 2 {
			got, _ := q.Get()
			require.Equal(t, "a", got.Namespace)
			require.InDelta(t, time.Minute+5*time.Second, time.Since(began), float64(2*time.Second))
			q.Done(got)
		}
	})
}

// What a worker has begun and not finished is in the file.
func TestTheQueueRecordsWhatIsBeingProcessed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(path, clock.RealClock{})
	require.NoError(t, err)
	q := Options(manager{j}, 8, nil).NewQueue("csv", RetryLimiter(time.Minute))
	defer q.ShutDown()
	for _, name := range []string{"1", "2"} {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: name}})
	}
	first, _ := q.Get()
	q.Done(first)
	second, _ := q.Get()
	next, err := journal.Open(path, clock.RealClock{})
	require.NoError(t, err)
	require.Len(t, next.Suspects(), 1)
	require.Equal(t, journal.Item{Group: "a", Name: "csv/" + second.String()}, next.Suspects()[0].Item)
}

// moving is a manager whose requests belong to another group each time.
type moving struct {
	manager

	groups *[]string
}

func (m moving) Group(string, reconcile.Request) (group string) {
	group, *m.groups = (*m.groups)[0], (*m.groups)[1:]
	return group
}

// An object can be created again in another namespace while it is being processed.
func TestTheQueueFinishesWhatItHasRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(path, clock.RealClock{})
	require.NoError(t, err)
	q := Options(moving{manager{j}, &[]string{"a", "b", ""}}, 8, nil).NewQueue("clusterextension", RetryLimiter(time.Minute))
	defer q.ShutDown()
	recorded := func() []journal.Suspect {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.WriteFile(file, text, 0o600))
		next, err := journal.Open(file, clock.RealClock{})
		require.NoError(t, err)
		return next.Suspects()
	}
	for _, want := range []string{"a", "b", ""} {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: "e"}})
		req, _ := q.Get()
		if got := recorded(); want == "" {
			require.Empty(t, got, "no namespace waits for it")
		} else {
			require.Equal(t, journal.Item{Group: want, Name: "clusterextension/e"}, got[0].Item)
		}
		q.Done(req)
		require.Empty(t, recorded())
	}
}
