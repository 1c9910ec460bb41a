package fairqueue

import (
	"cmp"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// shares is how many namespaces it takes to use all workers.
	shares = 8
	// Slow is how long an item takes that makes its namespace a slow one: for SlowFor or, where that is longer, slowTimes as long
	// as it took, and at most SlowForMost.
	Slow        = time.Second
	SlowFor     = 5 * time.Minute
	SlowForMost = 2 * time.Hour
	slowTimes   = 10
	// QuickFor is how long a namespace counts as a quick one after an item that was.
	QuickFor = time.Hour
	// ReconcileTimeout ends a reconcile that nothing else has ended. It is retried as a failure.
	ReconcileTimeout = 10 * time.Minute
)

// Options are those of a controller with a fair queue: one namespace uses an eighth of the workers, and at least one.
// limiter delays what has failed; nil is controller-runtime's own.
func Options(workers int, limiter workqueue.TypedRateLimiter[reconcile.Request]) controller.Options {
	limits := Limits{Workers: workers, Share: max(workers/shares, 1)}
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   ReconcileTimeout,
		RateLimiter:             limiter,
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return New(name, limiter, NamespaceOf, limits)
		},
	}
}

// NamespaceOf is the group of a request. A key without a namespace is a group of its own: a namespace, or another
// object of the whole cluster.
func NamespaceOf(req reconcile.Request) string { return cmp.Or(req.Namespace, req.Name) }

// Limits are how many workers there are, and how many of them work for one group of items.
type Limits struct {
	Workers, Share int
	// Clock defaults to the real one.
	Clock clock.Clock
}

// New returns a work queue in which the groups of items take turns. The caller has to ask for another item, by Get, after each
// Done, as controllers do.
func New[T comparable](name string, limiter workqueue.TypedRateLimiter[T], groupOf func(T) string, l Limits) workqueue.TypedRateLimitingInterface[T] {
	if l.Clock == nil {
		l.Clock = clock.RealClock{}
	}
	turns := newTurns(groupOf, l)
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
			Name: name,
			Queue: &queue[T]{
				TypedInterface: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: turns}),
				turns:          turns,
			},
		}),
	})
}

// queue tells the turns which items are done.
type queue[T comparable] struct {
	workqueue.TypedInterface[T]

	turns *turns[T]
}

// Done implements workqueue.TypedInterface.
func (q *queue[T]) Done(item T) {
	q.turns.release(item)
	q.TypedInterface.Done(item)
}

// Len implements workqueue.TypedInterface: all items that wait, whether a worker may take them now or not.
func (q *queue[T]) Len() int { return q.turns.waiting() }
