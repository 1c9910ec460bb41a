package installplan

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/message"
)

const (
	// largeSteps is the number of steps above which a plan is large: it takes longer than others to execute, because each step
	// needs several requests.
	largeSteps = 100
	// largeAtOnce is the number of large plans that are executed at the same time, and slowAtOnce that of additional ones in slow
	// namespaces. Without these limits, a few namespaces could use all workers that new namespaces can use (docs/adr/0080).
	largeAtOnce, slowAtOnce = 2, 1
	// largeTurn is the time after which a plan makes room for another one that waits; its namespace is then slow for slowTime. How long
	// a plan takes can be the choice of its tenant: a webhook that does not answer delays each request.
	largeTurn, slowTime = 20 * time.Second, time.Hour
)

// largeQueue admits large plans in order, at most one of each namespace at a time. A plan that has to wait gives its worker to other
// plans, and is woken when its turn comes. The plans of slow namespaces have a place of their own, in which they are not interrupted.
// The zero value is ready to use, except for clock.
type largeQueue struct {
	waker kit.Waker
	clock clock.PassiveClock

	mu sync.Mutex
	// running contains the plans that are being executed, and line those that wait, in order.
	running map[types.NamespacedName]turn
	line    []types.NamespacedName
	// slow contains the namespaces that were interrupted, and until when they are slow.
	slow map[string]time.Time
}

// turn is the execution of a plan.
type turn struct {
	since time.Time
	slow  bool
}

// begin reports whether a plan may be executed now. If not, the plan is added to the line. Every reconcile of the plan calls end.
func (q *largeQueue) begin(plan types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Contains(q.line, plan) {
		q.line = append(q.line, plan)
	}
	if !slices.Contains(q.ready(), plan) {
		return false
	}
	q.remove(plan)
	if q.running == nil {
		q.running = map[types.NamespacedName]turn{}
	}
	q.running[plan] = turn{since: q.clock.Now(), slow: q.isSlow(plan)}
	return true
}

// end is called at the end of each reconcile of a plan, with whether the plan waits for its turn. A plan that does not, for
// example because it is complete or waits for a permission, makes room for the next ones, which end wakes.
func (q *largeQueue) end(plan types.NamespacedName, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.running) + len(q.line)
	delete(q.running, plan)
	if !waits {
		q.remove(plan)
	}
	if len(q.running)+len(q.line) == before {
		return
	}
	for _, next := range q.ready() {
		q.waker.Wake(next)
	}
}

// isOver reports whether a plan that is being executed must make room, because it has taken long and others wait. It then waits at the end
// of the line, for the place of slow namespaces.
func (q *largeQueue) isOver(plan types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	t, running := q.running[plan]
	if running && slices.Contains(q.line, plan) {
		return true
	}
	if !running || t.slow || now.Sub(t.since) < largeTurn {
		return false
	}
	waits := func(other types.NamespacedName) bool { return other.Namespace != plan.Namespace && !q.isSlow(other) }
	if !slices.ContainsFunc(q.line, waits) {
		return false
	}
	maps.DeleteFunc(q.slow, func(_ string, until time.Time) bool { return !now.Before(until) })
	if q.slow == nil {
		q.slow = map[string]time.Time{}
	}
	q.slow[plan.Namespace] = now.Add(slowTime)
	q.line = append(q.line, plan)
	return true
}

// ready returns the plans of the line that may be executed now.
func (q *largeQueue) ready() []types.NamespacedName {
	free, busy := map[bool]int{false: largeAtOnce, true: slowAtOnce}, map[string]bool{}
	for plan, t := range q.running {
		free[t.slow]--
		busy[plan.Namespace] = true
	}
	var out []types.NamespacedName
	for _, plan := range q.line {
		slow := q.isSlow(plan)
		if free[slow] <= 0 || busy[plan.Namespace] {
			continue
		}
		free[slow]--
		busy[plan.Namespace] = true
		out = append(out, plan)
	}
	return out
}

func (q *largeQueue) isSlow(plan types.NamespacedName) bool {
	return q.clock.Now().Before(q.slow[plan.Namespace])
}

// remove takes a plan out of the line.
func (q *largeQueue) remove(plan types.NamespacedName) {
	q.line = slices.DeleteFunc(q.line, func(other types.NamespacedName) bool { return other == plan })
}

// awaitTurn makes a large plan wait while others are executed. The plan has its permissions by then, so that a plan that waits for
// its user does not delay others.
func awaitTurn(_ context.Context, s *run) (outcome, error) {
	if len(s.steps) <= largeSteps || s.reconciler.large.begin(s.key()) {
		return proceed(), nil
	}
	return s.awaitTurn(), nil
}

// awaitTurn ends a run until it is the plan's turn.
func (s *run) awaitTurn() outcome {
	s.queued = true
	return wait(reasonInstalling, message.Sprintf("waiting until other large InstallPlans have been executed: this one has %d objects, and of those with more than %d objects, "+
		"Remit executes %d at a time", len(s.steps), largeSteps, largeAtOnce))
}

// errTurn means that other plans wait. Nothing is lost: the next run of the plan skips the steps that are done.
var errTurn = errors.New("other large InstallPlans wait")

// checkTurn returns errTurn if the plan must make room for others. It is called before each request that can take long.
func (s *run) checkTurn() error {
	if s.reconciler.large.isOver(s.key()) {
		return errTurn
	}
	return nil
}

// showProgress reports how many steps have been executed, if the plan is saved before all have.
func (s *run) showProgress() {
	s.setInstalled(corev1.ConditionUnknown, reasonInstalling, message.Sprintf("%d of %d objects have been written", len(s.done), len(s.steps)))
}
