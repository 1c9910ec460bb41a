package installplan

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/pkg/step/execute"
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
	// slowTurn is the first turn of a slow namespace. Each turn that another slow plan ends is twice as long as the one before, up to
	// maxSlowTurn, because an interrupted plan begins with the objects that it has written before.
	slowTurn, maxSlowTurn = time.Minute, 4 * time.Minute
	// offerTime is the time in which a plan must come after it has been woken for a free place. Then the place is offered to others: a
	// tenant can keep the workers of a namespace busy, so that none is left for its plan.
	offerTime = 5 * time.Second
	// MaxMemory bounds the estimated memory for the objects of all plans that are executed, and for the texts of their bundles, in bytes (docs/adr/0091).
	MaxMemory = places*(resolver.MaxPlanCost+catalog.MaxContentBytes+execute.MaxMemory+execute.MaxForTargets) +
		(workers-places)*(resolver.OrdinaryCost+resolver.OrdinaryCost/bundle.TextCost+execute.FreeMemory)
	places = largeAtOnce + slowAtOnce
	// maxServed limits the number of namespaces whose last turns are remembered.
	maxServed = 4096
)

// largeQueue admits large plans, at most one of each namespace at a time, and the namespaces in turns. A plan that has to wait gives its worker to other
// plans, and is woken when its turn comes. The plans of slow namespaces have a place of their own, with longer turns.
// The zero value is ready to use, except for clock.
type largeQueue struct {
	waker kit.Waker
	clock clock.PassiveClock
	// later calls a function after some time. It defaults to time.AfterFunc.
	later func(time.Duration, func())

	mu sync.Mutex
	// running contains the plans that are being executed, and line those that wait, in order.
	running map[types.NamespacedName]turn
	line    []*waiting
	// slow contains the namespaces that were interrupted.
	slow map[string]slowness
	// served contains the serial number of each namespace's last turn, for at most maxServed namespaces, and serial is the last number.
	served map[string]int
	serial int
}

// turn is the execution of a plan.
type turn struct {
	since time.Time
	slow  bool
}

// waiting is a plan in the line.
type waiting struct {
	types.NamespacedName

	// offered is the time at which the plan was woken for a free place; zero if it was not, or if it has come since.
	offered time.Time
}

// slowness says until when a namespace is slow, how long its turns are, and how long all of them have taken.
type slowness struct {
	until      time.Time
	turn, used time.Duration
}

// begin reports whether a plan may be executed now, or already is. If not, the plan is added to the line. Every reconcile of the plan
// calls end.
func (q *largeQueue) begin(plan types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.running[plan]; ok {
		return true
	}
	if own := q.find(plan); own == nil {
		q.line = append(q.line, &waiting{NamespacedName: plan})
	} else {
		own.offered = time.Time{}
	}
	if !slices.ContainsFunc(q.ready(), func(w *waiting) bool { return w.NamespacedName == plan }) {
		return false
	}
	q.remove(plan)
	if q.running == nil {
		q.running = map[types.NamespacedName]turn{}
	}
	q.running[plan] = turn{since: q.clock.Now(), slow: q.isSlow(plan.Namespace)}
	q.noteServed(plan.Namespace)
	return true
}

// noteServed records that a namespace got a turn. Of too many namespaces, those that do not wait are forgotten.
func (q *largeQueue) noteServed(namespace string) {
	if len(q.served) >= maxServed {
		waiting := map[string]bool{}
		for _, w := range q.line {
			waiting[w.Namespace] = true
		}
		maps.DeleteFunc(q.served, func(name string, _ int) bool { return !waiting[name] })
	}
	if q.served == nil {
		q.served = map[string]int{}
	}
	q.serial++
	q.served[namespace] = q.serial
}

// end is called at the end of each reconcile of a plan, with whether the plan waits for its turn. A plan that does not, for
// example because it is complete or waits for a permission, makes room for the next ones, which end wakes.
func (q *largeQueue) end(plan types.NamespacedName, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.running) + len(q.line)
	if s, ok := q.slow[plan.Namespace]; ok && q.running[plan].slow {
		s.used += q.clock.Since(q.running[plan].since)
		q.slow[plan.Namespace] = s
	}
	delete(q.running, plan)
	if !waits {
		q.remove(plan)
	}
	if len(q.running)+len(q.line) != before {
		q.offer()
	}
}

// offer wakes the plans that may be executed now. If one of them does not come in time, offer is called again.
func (q *largeQueue) offer() {
	woken := false
	for _, next := range q.ready() {
		if next.offered.IsZero() {
			next.offered, woken = q.clock.Now(), true
			q.waker.Wake(next.NamespacedName)
		}
	}
	if woken {
		later := q.later
		if later == nil {
			later = func(d time.Duration, f func()) { time.AfterFunc(d, f) }
		}
		later(offerTime, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.offer()
		})
	}
}

// isOver reports whether a plan that is being executed must make room, because it has taken long and others wait. It then waits at the end
// of the line, for the place of slow namespaces.
func (q *largeQueue) isOver(plan types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, running := q.running[plan]
	if running && q.find(plan) != nil {
		return true
	}
	now := q.clock.Now()
	length := largeTurn
	if t.slow {
		length = max(q.slowTurn(plan.Namespace), slowTurn)
	}
	if !running || now.Sub(t.since) < length || !slices.ContainsFunc(q.line, func(w *waiting) bool {
		return w.Namespace != plan.Namespace && q.isSlow(w.Namespace) == t.slow && !q.isLate(w)
	}) {
		return false
	}
	maps.DeleteFunc(q.slow, func(_ string, s slowness) bool { return !now.Before(s.until) })
	if q.slow == nil {
		q.slow = map[string]slowness{}
	}
	next, used := slowTurn, q.slow[plan.Namespace].used
	if t.slow {
		next = min(2*length, maxSlowTurn)
	} else {
		used = max(used, q.leastUsed())
	}
	q.slow[plan.Namespace] = slowness{until: now.Add(slowTime), turn: next, used: used}
	q.line = append(q.line, &waiting{NamespacedName: plan})
	return true
}

// leastUsed returns the least time that turns took of the slow namespaces that have plans in the queue, so that a namespace that becomes
// slow does not precede them until it has caught up.
func (q *largeQueue) leastUsed() time.Duration {
	least := time.Duration(-1)
	consider := func(namespace string) {
		if used := q.slow[namespace].used; q.isSlow(namespace) && (least < 0 || used < least) {
			least = used
		}
	}
	for _, w := range q.line {
		consider(w.Namespace)
	}
	for plan := range q.running {
		consider(plan.Namespace)
	}
	return max(least, 0)
}

// ready returns the plans of the line that may be executed now. Those that did not come in time come last. Of slow namespaces, the one
// comes first whose turns took the least time, in however many turns, and of others, the one whose last turn is the longest ago, however
// many plans it has in the line.
func (q *largeQueue) ready() (out []*waiting) {
	free, busy := map[bool]int{false: largeAtOnce, true: slowAtOnce}, map[string]bool{}
	for plan, t := range q.running {
		free[t.slow]--
		busy[plan.Namespace] = true
	}
	used := func(w *waiting) time.Duration {
		if q.isSlow(w.Namespace) {
			return q.slow[w.Namespace].used
		}
		return 0
	}
	late := func(w *waiting) int {
		if q.isLate(w) {
			return 1
		}
		return 0
	}
	for _, w := range slices.SortedStableFunc(slices.Values(q.line), func(a, b *waiting) int {
		return cmp.Or(cmp.Compare(late(a), late(b)), cmp.Compare(used(a), used(b)), cmp.Compare(q.served[a.Namespace], q.served[b.Namespace]))
	}) {
		slow := q.isSlow(w.Namespace)
		if free[slow] <= 0 || busy[w.Namespace] {
			continue
		}
		free[slow]--
		busy[w.Namespace] = true
		out = append(out, w)
	}
	return out
}

// isLate reports whether a plan was woken for a free place, and did not come in time.
func (q *largeQueue) isLate(w *waiting) bool {
	return !w.offered.IsZero() && q.clock.Since(w.offered) >= offerTime
}

func (q *largeQueue) isSlow(namespace string) bool { return q.slowTurn(namespace) > 0 }

// slowTurn returns the length of the turns of a slow namespace, and 0 for others.
func (q *largeQueue) slowTurn(namespace string) time.Duration {
	if s := q.slow[namespace]; q.clock.Now().Before(s.until) {
		return s.turn
	}
	return 0
}

// isWaiting reports whether a plan is in the line.
func (q *largeQueue) isWaiting(plan types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.find(plan) != nil
}

// find returns a plan of the line, or nil.
func (q *largeQueue) find(plan types.NamespacedName) *waiting {
	for _, w := range q.line {
		if w.NamespacedName == plan {
			return w
		}
	}
	return nil
}

// remove takes a plan out of the line.
func (q *largeQueue) remove(plan types.NamespacedName) {
	q.line = slices.DeleteFunc(q.line, func(w *waiting) bool { return w.NamespacedName == plan })
}

// awaitTurn makes a large plan wait while others are executed. The plan has its permissions by then, so that a plan that waits for
// its user does not delay others.
func awaitTurn(_ context.Context, s *run) (outcome, error) {
	q := s.reconciler.large
	if len(s.steps) <= largeSteps && !q.isWaiting(s.key()) || q.begin(s.key()) {
		return proceed(), nil
	}
	return s.awaitTurn(), nil
}

// awaitTurn ends a run until it is the plan's turn.
func (s *run) awaitTurn() outcome {
	s.queued = true
	const others = "waiting until other large InstallPlans have been executed: "
	if len(s.steps) <= largeSteps {
		return wait(reasonInstalling, message.Sprintf(others+"the objects of this one take much memory, or long to write, and of such plans, Remit executes %d at a time", largeAtOnce))
	}
	return wait(reasonInstalling, message.Sprintf(others+"this one has %d objects, and of those with more than %d objects, "+
		"Remit executes %d at a time", len(s.steps), largeSteps, largeAtOnce))
}

// errTurn means that other plans wait. Nothing is lost: the next run of the plan skips the steps that are done.
var errTurn = errors.New("other large InstallPlans wait")

// checkTurn returns errTurn if the plan must make room for others. It is called before each request that can take long. A plan with few
// steps that has taken as long as a large one needs a place as well.
func (s *run) checkTurn() error {
	q := s.reconciler.large
	if q.isOver(s.key()) || q.clock.Since(s.began) >= largeTurn && !q.begin(s.key()) {
		return errTurn
	}
	return nil
}

// takePlace gives the plan one of the places of large plans. It returns errTurn if none is free.
func (s *run) takePlace() error {
	if !s.reconciler.large.begin(s.key()) {
		return errTurn
	}
	return nil
}

// showProgress reports how many steps have been executed, if the plan is saved before all have.
func (s *run) showProgress() {
	s.setInstalled(corev1.ConditionUnknown, reasonInstalling, message.Sprintf("%d of %d objects have been written", len(s.done), len(s.steps)))
}
