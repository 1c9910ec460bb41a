package installplan

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/message"
)

const (
	// largeSteps is the number of steps above which a plan is large: it takes longer than others to execute, because each step
	// needs several requests.
	largeSteps = 100
	// largeAtOnce is the number of large plans that are executed at the same time. Without this limit, a few namespaces could
	// use all workers that new namespaces can use (docs/adr/0080).
	largeAtOnce = 2
)

// largeQueue admits large plans in order, largeAtOnce at a time. A plan that has to wait gives its worker to other plans, and is
// woken when its turn comes. The zero value is ready to use.
type largeQueue struct {
	waker kit.Waker

	mu sync.Mutex
	// running contains the plans that are being executed, and line those that wait, in order.
	running, line []types.NamespacedName
}

// begin reports whether a plan may be executed now. If not, the plan is added to the line. Every reconcile of the plan calls end.
func (q *largeQueue) begin(plan types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.line, plan)
	if at < 0 {
		at = len(q.line)
		q.line = append(q.line, plan)
	}
	if at >= largeAtOnce-len(q.running) {
		return false
	}
	q.line = slices.Delete(q.line, at, at+1)
	q.running = append(q.running, plan)
	return true
}

// end is called at the end of each reconcile of a plan, with whether the plan waits for its turn. A plan that does not, for
// example because it is complete or waits for a permission, makes room for the next ones, which end wakes.
func (q *largeQueue) end(plan types.NamespacedName, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	isPlan := func(other types.NamespacedName) bool { return other == plan }
	before := len(q.running) + len(q.line)
	q.running = slices.DeleteFunc(q.running, isPlan)
	if !waits {
		q.line = slices.DeleteFunc(q.line, isPlan)
	}
	if len(q.running)+len(q.line) == before {
		return
	}
	for _, next := range q.line[:min(len(q.line), largeAtOnce-len(q.running))] {
		q.waker.Wake(next)
	}
}

// awaitTurn makes a large plan wait while others are executed. The plan has its permissions by then, so that a plan that waits for
// its user does not delay others.
func awaitTurn(_ context.Context, s *run) (outcome, error) {
	if len(s.steps) <= largeSteps || s.reconciler.large.begin(s.key()) {
		return proceed(), nil
	}
	s.queued = true
	return wait(reasonInstalling, message.Sprintf("waiting until other large InstallPlans have been executed: this one has %d objects, and of those with more than %d objects, "+
		"Remit executes %d at a time", len(s.steps), largeSteps, largeAtOnce)), nil
}

// showProgress reports how many steps have been executed, if the plan is saved before all have.
func (s *run) showProgress() {
	s.setInstalled(corev1.ConditionUnknown, reasonInstalling, message.Sprintf("%d of %d objects have been written", len(s.done), len(s.steps)))
}
