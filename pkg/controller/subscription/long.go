package subscription

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/pkg/resolver"
)

const (
	// reasonLimitExceeded is the reason of the condition ResolutionFailed if a resolution exceeded the full limits.
	reasonLimitExceeded = "ResolutionLimitExceeded"
	// firstPause is the delay after a resolution that exceeded the full limits. It doubles with each further failure,
	// up to lastPause.
	firstPause = 10 * time.Minute
	lastPause  = 6 * time.Hour
	// maxTries is the maximum number of long resolutions of a namespace within tryWindow, even if the inputs change
	// more often.
	maxTries  = 3
	tryWindow = 10 * time.Minute
	// maxCanceled is the maximum number of resolutions within tryWindow that do not count as tries because a change to the
	// inputs canceled them.
	maxCanceled = 5
)

// digest is the type of the keys that identify the inputs of a resolution.
type digest = [sha256.Size]byte

// longQueue runs resolutions that exceed the light limits, one at a time and outside the workers, so that they do not
// delay other namespaces and use at most half of a CPU. If a namespace exceeds the full limits, longQueue delays its further
// resolutions.
type longQueue struct {
	clock   clock.PassiveClock
	answers *answers
	// served returns the served kinds when a resolution starts. If it is nil, the resolution uses the kinds that were
	// served when it was queued.
	served func(context.Context) (served, error)
	// metrics records the duration of each resolution.
	metrics *metrics
	// journal records which namespace is being resolved; it may be nil. The jobs of a suspended namespace wait in the queue.
	journal *journal.Journal
	begin   chan struct{}
	// waker wakes a namespace when its long resolution has ended.
	waker kit.Waker

	mu          sync.Mutex
	byNamespace map[string]*longState
	line        []string
}

// longState is the state of a namespace whose resolution has exceeded the light limits.
type longState struct {
	key digest
	// job is the queued or running resolution for the key, or nil.
	job *job
	// tries contains the start times of long resolutions within tryWindow, the oldest first.
	tries []time.Time
	// canceled contains the times of cancellations that do not count as tries. ran contains the durations of long
	// resolutions. Both cover tryWindow.
	canceled []time.Time
	ran      []ran
	// stopped is the error from the last resolution if it exceeded the full limits, or nil. While the key and the kinds in
	// used are unchanged, the namespace is not resolved again before the time in until. failed is the number of
	// consecutive failures.
	stopped *resolver.LimitError
	used    usedKinds
	heads   map[types.UID]string
	until   time.Time
	failed  int
}

// ran contains the end time and the duration of a resolution.
type ran struct {
	until time.Time
	took  time.Duration
}

type job struct {
	input  resolver.Input
	ns     resolver.Namespace
	asking *kindRecorder
	// cancel cancels the job. It is nil until the job runs.
	cancel context.CancelFunc
}

func newLongQueue(c clock.PassiveClock, a *answers) *longQueue {
	return &longQueue{clock: c, answers: a, begin: make(chan struct{}, 1), byNamespace: map[string]*longState{}}
}

// parked describes why a namespace is not resolved now, and when it can be retried.
type parked struct {
	problem *resolver.Problem
	// heads contains the Heads of the Answer, if there is one.
	heads map[types.UID]string
	// after is the delay before a retry, or 0 if only an event triggers the retry.
	after time.Duration
}

// check returns nil if a namespace can be resolved, and otherwise the reason why it has to wait. It cancels a job whose
// inputs have changed. A change to the served kinds does not cancel a job, because users of other namespaces can cause
// such a change; when the job has ended, isCurrent determines whether the change affects the result.
func (l *longQueue) check(namespace string, key digest, now served) *parked {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byNamespace[namespace]
	if r == nil {
		return nil
	}
	if r.job != nil {
		if r.key == key {
			return &parked{}
		}
		l.cancel(namespace, r)
	}
	at := l.clock.Now()
	r.prune(at)
	switch {
	case r.stopped == nil && r.isEmpty():
		delete(l.byNamespace, namespace)
	case r.stopped != nil && r.key == key && r.used.isCurrent(now) && at.Before(r.until):
		return &parked{problemOf(r.stopped), r.heads, r.until.Sub(at)}
	case len(r.tries) >= maxTries:
		return &parked{problemOf(r.stopped), r.heads, r.tries[0].Add(tryWindow).Sub(at)}
	}
	return nil
}

func problemOf(stopped *resolver.LimitError) *resolver.Problem {
	if stopped == nil {
		return &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: fmt.Sprintf("resolving the Subscriptions of the namespace takes a long time, and "+
			"Subscriptions, catalogs or versions changed in the meantime. The resolution will be retried within %d minutes", int(tryWindow.Minutes()))}
	}
	return &resolver.Problem{Reason: reasonLimitExceeded, Message: fmt.Sprintf("%s. Nothing else will be installed in the namespace until you delete the Subscriptions "+
		"that cause this, or use a catalog whose packages have fewer requirements. The resolution will be retried when Subscriptions, catalogs or "+
		"versions change, at most %d times in %d minutes, or after a delay", stopped, maxTries, int(tryWindow.Minutes()))}
}

func (r *longState) prune(now time.Time) {
	over := func(t time.Time) bool { return !now.Before(t.Add(tryWindow)) }
	r.tries, r.canceled = slices.DeleteFunc(r.tries, over), slices.DeleteFunc(r.canceled, over)
	r.ran = slices.DeleteFunc(r.ran, func(x ran) bool { return over(x.until) })
}

// isEmpty reports whether the state contains no records of resolutions.
func (r *longState) isEmpty() bool { return len(r.tries)+len(r.canceled)+len(r.ran) == 0 }

// usage returns the total duration of the resolutions that ended within tryWindow before now.
func (r *longState) usage(now time.Time) (out time.Duration) {
	for _, x := range r.ran {
		if now.Before(x.until.Add(tryWindow)) {
			out += x.took
		}
	}
	return out
}

// cancel cancels a queued or running job. Up to maxCanceled cancellations within tryWindow do not count as tries.
// Further cancellations do count, because canceled jobs have also used CPU time. The caller must hold the lock.
func (l *longQueue) cancel(namespace string, r *longState) {
	now := l.clock.Now()
	r.prune(now)
	if n := len(r.tries); n > 0 && len(r.canceled) < maxCanceled {
		r.tries, r.canceled = r.tries[:n-1], append(r.canceled, now)
	}
	if r.job.cancel != nil {
		r.job.cancel()
	}
	r.job = nil
	l.line = slices.DeleteFunc(l.line, func(other string) bool { return other == namespace })
}

// drop cancels the job of a namespace that has nothing left to resolve. It keeps the recorded tries.
func (l *longQueue) drop(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byNamespace[namespace]
	if r == nil {
		return
	}
	if r.job != nil {
		l.cancel(namespace, r)
	}
	r.until = time.Time{}
	if r.prune(l.clock.Now()); r.isEmpty() {
		delete(l.byNamespace, namespace)
	}
}

// enqueue adds the job of a namespace to the queue, and counts it as a try.
func (l *longQueue) enqueue(namespace string, key digest, j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byNamespace[namespace]
	if r == nil {
		r = &longState{}
		l.byNamespace[namespace] = r
	}
	if r.key != key {
		r.key, r.failed = key, 0
	}
	r.job = j
	r.tries = append(r.tries, l.clock.Now())
	l.line = append(l.line, namespace)
	select {
	case l.begin <- struct{}{}:
	default: // Start already has a notification
	}
}

// Start runs queued jobs until the context is canceled. It implements manager.Runnable.
func (l *longQueue) Start(ctx context.Context) error {
	for {
		for l.next(ctx) {
		}
		var resumed <-chan time.Time
		if wait, isQueued := l.wait(); isQueued {
			resumed = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.begin:
		case <-resumed:
		}
	}
}

// wait returns how long no queued job can begin because their namespaces are suspended, and whether there is a job.
func (l *longQueue) wait() (least time.Duration, isQueued bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, namespace := range l.line {
		if wait := l.journal.Wait(itemOf(namespace)); i == 0 || wait < least {
			least = wait
		}
	}
	return least, len(l.line) > 0
}

// itemOf returns the record of the work on a namespace, which is that of its reconcile, because a long resolution belongs to it.
func itemOf(namespace string) journal.Item {
	return journal.Item{Group: namespace, Name: controllerName + "/" + namespace}
}

// next runs the next job. It returns false without running a job if the queue contains none that can begin, or the context was canceled.
func (l *longQueue) next(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	at, began := l.first(), l.clock.Now()
	if at < 0 || ctx.Err() != nil {
		l.mu.Unlock()
		return false
	}
	namespace := l.line[at]
	l.line = slices.Delete(l.line, at, at+1)
	r := l.byNamespace[namespace]
	j, key := r.job, r.key
	j.cancel = cancel
	l.mu.Unlock()

	if l.journal.Begin(itemOf(namespace)) == 0 {
		defer l.journal.Done(itemOf(namespace))
	}
	l.refresh(ctx, j)
	resolved := l.metrics.resolving()
	answer, err := j.input.Resolve(ctx, patient(), j.ns)
	log.FromContext(ctx).V(1).Info("Finished a long resolution", "namespace", namespace, "error", err)
	resolved(answer, err)
	l.account(namespace, l.clock.Since(began))
	l.finish(namespace, key, j, answer, err)
	return true
}

// patient returns the full limits for a resolution that leaves half of a CPU to other namespaces.
func patient() resolver.Limits {
	limits := resolver.Full()
	limits.Idle = 0.5
	return limits
}

// refresh updates a job's served kinds, because they may have changed while the job was queued.
func (l *longQueue) refresh(ctx context.Context, j *job) {
	if l.served == nil {
		return
	}
	if now, err := l.served(ctx); err == nil {
		j.asking = newKindRecorder(now)
		j.input.Serves = j.asking.serves
	}
}

// first returns the position in the queue of the namespace with the lowest usage that is not suspended, or -1. If several have the
// same usage, it prefers the one that has waited longest. The caller must hold the lock.
func (l *longQueue) first() int {
	now := l.clock.Now()
	best, least := -1, time.Duration(0)
	for i, namespace := range l.line {
		if l.journal.Wait(itemOf(namespace)) > 0 {
			continue
		}
		if used := l.byNamespace[namespace].usage(now); best < 0 || used < least {
			best, least = i, used
		}
	}
	return best
}

// account records the duration of a resolution, regardless of its result.
func (l *longQueue) account(namespace string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.byNamespace[namespace]; r != nil {
		r.ran = append(r.ran, ran{l.clock.Now(), took})
	}
}

// finish stores the result of a job unless it was canceled, and wakes the namespace.
func (l *longQueue) finish(namespace string, key digest, j *job, answer resolver.Answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byNamespace[namespace]
	if r == nil || r.job != j {
		return
	}
	r.job = nil
	var exceeded *resolver.LimitError
	switch {
	case errors.As(err, &exceeded):
		r.used = j.asking.used
		r.stopped, r.heads, r.until = exceeded, answer.Heads, l.clock.Now().Add(min(firstPause<<min(r.failed, 8), lastPause))
		r.failed++
	case err != nil:
		return // the program is shutting down
	default:
		r.stopped, r.failed = nil, 0
		l.answers.Set(namespace, &known{key: key, used: j.asking.used, answer: &answer, plans: map[string]resolution{}})
	}
	l.waker.Wake(request(namespace).NamespacedName)
}
