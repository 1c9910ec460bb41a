package fairqueue

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/lib/journal"
)

const (
	// shares is the number of shares into which the workers are divided; a namespace can use one share.
	shares = 8
	// Slow is the duration beyond which an item makes its namespace slow. The namespace then counts as slow for SlowFor
	// or for the item's duration multiplied by slowTimes, whichever is longer, but for at most SlowForMost.
	Slow = time.Second
	// SlowFor is the shortest time for which a namespace counts as slow.
	SlowFor = 5 * time.Minute
	// SlowForMost is the longest time for which a namespace counts as slow because of one item.
	SlowForMost = 2 * time.Hour
	slowTimes   = 10
	// QuickFor is how long a namespace counts as quick after a quick item. The time can be shorter by up to quickAgain.
	QuickFor = time.Hour
	// quickAgain is the minimum time between two quick items of a namespace that are recorded.
	quickAgain = QuickFor / 10
	// distrustTimes is how many times as long as a slow item its namespace cannot be quick, but for at most DistrustForMost.
	// Any worker can process an item of a quick namespace, and no order of the items can tell beforehand which of them
	// will be slow. The limit is therefore how often quick namespaces can occupy the last workers: with n namespaces for each of
	// these workers, for at most n in distrustTimes of the time.
	distrustTimes = 240
	// DistrustForMost is the longest time for which a namespace cannot be quick because of one item.
	DistrustForMost = 24 * time.Hour
	// ReconcileTimeout is the maximum duration of a reconcile. A reconcile that times out is retried like a failed one.
	ReconcileTimeout = 10 * time.Minute
	// FirstRetry is the delay before the first retry with RetryLimiter. It is short, because the API server's authorizer
	// may observe a new grant slightly later than this program.
	FirstRetry = 50 * time.Millisecond
	// LastRetry is the usual maximum delay for RetryLimiter.
	LastRetry = 2 * time.Minute
)

// RetryLimiter returns a limiter for Options. It delays the first retry of a failed item by FirstRetry and doubles the
// delay with each further retry, up to last.
func RetryLimiter(last time.Duration) workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstRetry, last)
}

// Options returns the options for a controller of the manager with a fair queue. One namespace can use an eighth of the workers, but
// always at least one. limiter delays failed items; nil means controller-runtime's default. A controller that reads
// registries must have Waits, which also measure its Reconciler.
func Options(mgr any, workers int, limiter workqueue.TypedRateLimiter[reconcile.Request], waits ...*Waits) controller.Options {
	limits := Limits{Workers: workers, Share: max(workers/shares, 1)}
	records, isJournaled := mgr.(Journaled)
	if isJournaled {
		limits.Journal = records.Journal()
	}
	for _, w := range waits {
		limits.Waited = w.take
	}
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   ReconcileTimeout,
		RateLimiter:             limiter,
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			if isJournaled {
				limits.ItemOf = itemOf(records, name)
			}
			return New(name, limiter, NamespaceOf, limits)
		},
	}
}

// Journaled is a manager whose controllers record what they work on.
type Journaled interface {
	Journal() *journal.Journal
	// Group returns the group of a request to a controller: the namespace that waits if the program ends. If it is empty, the request is
	// not recorded. For the same request, it can change.
	Group(controller string, req reconcile.Request) string
}

// itemOf returns a function that returns what a controller's request is in the journal.
func itemOf(records Journaled, controller string) func(any) journal.Item {
	return func(item any) journal.Item {
		req, _ := item.(reconcile.Request) // always true
		return journal.Item{Group: records.Group(controller, req), Name: controller + "/" + strings.TrimPrefix(req.String(), "/")}
	}
}

// NamespaceOf returns the group of a request: its namespace or, for cluster-scoped objects, the object itself.
func NamespaceOf(req reconcile.Request) string { return cmp.Or(req.Namespace, req.Name) }

// Limits contains the number of workers, and the number of them that one group of items can use at a time.
type Limits struct {
	Workers, Share int
	// Waited, if not nil, returns how long an item that is done has waited for other namespaces.
	Waited func(item any) time.Duration
	// Journal records the items that are being processed, as ItemOf returns them; it may be nil. Items that have to wait are added again
	// after that time.
	Journal *journal.Journal
	ItemOf  func(item any) journal.Item
	// Clock defaults to the real clock.
	Clock clock.Clock
}

// New returns a work queue in which groups of items take turns. After each Done, the caller must request another item with Get,
// as controllers do.
func New[T comparable](name string, limiter workqueue.TypedRateLimiter[T], groupOf func(T) string, l Limits) workqueue.TypedRateLimitingInterface[T] {
	if l.Clock == nil {
		l.Clock = clock.RealClock{}
	}
	turns := newTurns(groupOf, l)
	inner := workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
			Name: name,
			Queue: &queue[T]{
				TypedInterface: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: turns}),
				turns:          turns,
			},
		}),
	})
	if l.Journal == nil {
		return inner
	}
	return &recorded[T]{TypedRateLimitingInterface: inner, journal: l.Journal, itemOf: l.ItemOf, turns: turns, begun: map[T]journal.Item{}}
}

// recorded is a work queue that records the items being processed.
type recorded[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]

	journal *journal.Journal
	itemOf  func(any) journal.Item
	turns   *turns[T]

	mu sync.Mutex
	// begun contains what is recorded of the items being processed. When they are done, their groups can be different.
	begun map[T]journal.Item
}

// Get implements workqueue.TypedInterface.
func (q *recorded[T]) Get() (item T, shutdown bool) {
	for {
		if item, shutdown = q.TypedRateLimitingInterface.Get(); shutdown {
			return item, shutdown
		}
		is := q.itemOf(item)
		wait := q.journal.Begin(is)
		if wait == 0 {
			q.mu.Lock()
			q.begun[item] = is
			q.mu.Unlock()
			return item, false
		}
		q.AddAfter(item, wait)
		q.turns.skip(item)
		q.TypedRateLimitingInterface.Done(item)
	}
}

// Done implements workqueue.TypedInterface.
func (q *recorded[T]) Done(item T) {
	q.mu.Lock()
	is := q.begun[item]
	delete(q.begun, item)
	q.mu.Unlock()
	q.journal.Done(is)
	q.TypedRateLimitingInterface.Done(item)
}

// queue is a work queue that reports completed items to turns.
type queue[T comparable] struct {
	workqueue.TypedInterface[T]

	turns *turns[T]
}

// Done implements workqueue.TypedInterface.
func (q *queue[T]) Done(item T) {
	q.turns.release(item)
	q.TypedInterface.Done(item)
}

// Len implements workqueue.TypedInterface. It counts all waiting items, including those that no worker can take now.
func (q *queue[T]) Len() int { return q.turns.waiting() }
