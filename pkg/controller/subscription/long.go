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
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/remit-olm/remit/pkg/resolver"
)

const (
	// reasonLimitExceeded is that of ResolutionFailed where a resolution was stopped.
	reasonLimitExceeded = "ResolutionLimitExceeded"
	// firstPause is how long a namespace waits whose resolution was stopped, lastPause how long it does in the end.
	firstPause = 10 * time.Minute
	lastPause  = 6 * time.Hour
	// maxTries is how many long resolutions a namespace gets in a tryWindow, however often its inputs change.
	maxTries  = 3
	tryWindow = 10 * time.Minute
	// maxCanceled is how many of them in a tryWindow count as no try because its inputs changed before they ended.
	maxCanceled = 5
)

// digest is a key of answers.
type digest = [sha256.Size]byte

// long runs the resolutions that do not keep to the light limits: one after the other, outside of the workers, so
// that others are not kept waiting, and with at most one CPU. It knows which namespaces have exceeded the full limits,
// and lets them rest.
type long struct {
	clock   clock.PassiveClock
	answers *answers
	// served is what is served when a resolution begins; nil leaves it with what was served when it was put in line.
	served func(context.Context) (served, error)
	begin  chan struct{}

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	of    map[string]*rest
	line  []string
}

// rest is what is known of a namespace that has exceeded the light limits.
type rest struct {
	key digest
	// job is what waits or runs for the key; nil where nothing does.
	job *job
	// tries are the long resolutions of the last tryWindow, the oldest first.
	tries []time.Time
	// canceled are those that do not count as tries, ran the times that long resolutions took, also of the last tryWindow.
	canceled []time.Time
	ran      []ran
	// stopped says by what the last one exceeded the full limits, for the key and what it was told, until a moment; failed
	// counts in a row.
	stopped *resolver.LimitError
	told    told
	heads   map[types.UID]string
	until   time.Time
	failed  int
}

// ran is how long something took, until a moment.
type ran struct {
	until time.Time
	took  time.Duration
}

type job struct {
	input  resolver.Input
	ns     resolver.Namespace
	asking *asking
	// cancel ends it once it runs.
	cancel context.CancelFunc
}

func newLong(c clock.PassiveClock, a *answers) *long {
	return &long{clock: c, answers: a, begin: make(chan struct{}, 1), of: map[string]*rest{}}
}

// parked says why a namespace is not resolved now, and when that may be tried again.
type parked struct {
	problem *resolver.Problem
	// heads are those of an Answer.
	heads map[types.UID]string
	// after is 0 where an event tells.
	after time.Duration
}

// look says whether a namespace may be resolved: it may where it gets nil. What runs for other inputs than these is
// canceled; but not for what comes to be served meanwhile, which anybody on the cluster may change: whether it was told
// otherwise is seen when it has ended.
func (l *long) look(namespace string, key digest, now served) *parked {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of[namespace]
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
	case r.stopped == nil && r.forgotten():
		delete(l.of, namespace)
	case r.stopped != nil && r.key == key && r.told.holds(now) && at.Before(r.until):
		return &parked{problemOf(r.stopped), r.heads, r.until.Sub(at)}
	case len(r.tries) >= maxTries:
		return &parked{problemOf(r.stopped), r.heads, r.tries[0].Add(tryWindow).Sub(at)}
	}
	return nil
}

func problemOf(stopped *resolver.LimitError) *resolver.Problem {
	if stopped == nil {
		return &resolver.Problem{Reason: resolver.ErrorPreventedResolution, Message: fmt.Sprintf("the resolution of the namespace takes long, and "+
			"Subscriptions, catalogs or versions changed too often for it to end. This is tried again within %d minutes", int(tryWindow.Minutes()))}
	}
	return &resolver.Problem{Reason: reasonLimitExceeded, Message: fmt.Sprintf("%s. Nothing more is installed in the namespace: delete the Subscriptions "+
		"that lead there, or use a catalog whose packages ask for less. This is tried again when Subscriptions, catalogs or versions change, at most %d "+
		"times in %d minutes, and else after a pause", stopped, maxTries, int(tryWindow.Minutes()))}
}

func (r *rest) prune(now time.Time) {
	over := func(t time.Time) bool { return !now.Before(t.Add(tryWindow)) }
	r.tries, r.canceled = slices.DeleteFunc(r.tries, over), slices.DeleteFunc(r.canceled, over)
	r.ran = slices.DeleteFunc(r.ran, func(x ran) bool { return over(x.until) })
}

// forgotten says that nothing of the last tryWindow is known.
func (r *rest) forgotten() bool { return len(r.tries)+len(r.canceled)+len(r.ran) == 0 }

// used is how long the resolutions of the last tryWindow took.
func (r *rest) used(now time.Time) (out time.Duration) {
	for _, x := range r.ran {
		if now.Before(x.until.Add(tryWindow)) {
			out += x.took
		}
	}
	return out
}

// cancel ends what waits or runs. It counts as a try only where that happens often: then it is the inputs that cost. The
// lock is held.
func (l *long) cancel(namespace string, r *rest) {
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

// drop cancels what waits or runs for a namespace in which there is nothing to resolve any more. How often it was tried
// stays known.
func (l *long) drop(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of[namespace]
	if r == nil {
		return
	}
	if r.job != nil {
		l.cancel(namespace, r)
	}
	r.until = time.Time{}
	if r.prune(l.clock.Now()); r.forgotten() {
		delete(l.of, namespace)
	}
}

// enqueue has a namespace wait for its turn.
func (l *long) enqueue(namespace string, key digest, j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of[namespace]
	if r == nil {
		r = &rest{}
		l.of[namespace] = r
	}
	if r.key != key {
		r.key, r.failed = key, 0
	}
	r.job = j
	r.tries = append(r.tries, l.clock.Now())
	l.line = append(l.line, namespace)
	select {
	case l.begin <- struct{}{}:
	default: // it was told already
	}
}

// Start runs what is in line until the context ends. It implements manager.Runnable.
func (l *long) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.begin:
		}
		for l.next(ctx) {
		}
	}
}

// next runs what is first; false where nothing is in line.
func (l *long) next(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	if len(l.line) == 0 || ctx.Err() != nil {
		l.mu.Unlock()
		return false
	}
	at, began := l.first(), l.clock.Now()
	namespace := l.line[at]
	l.line = slices.Delete(l.line, at, at+1)
	r := l.of[namespace]
	j, key := r.job, r.key
	j.cancel = cancel
	l.mu.Unlock()

	l.refresh(ctx, j)
	answer, err := j.input.Resolve(ctx, resolver.Full(), j.ns)
	log.FromContext(ctx).V(1).Info("Resolved outside of the workers", "namespace", namespace, "error", err)
	l.account(namespace, l.clock.Since(began))
	l.finish(namespace, key, j, answer, err)
	return true
}

// refresh has a job be told what is served now: it may have waited for long.
func (l *long) refresh(ctx context.Context, j *job) {
	if l.served == nil {
		return
	}
	if now, err := l.served(ctx); err == nil {
		j.asking = newAsking(now)
		j.input.Serves = j.asking.serves
	}
}

// first is the place in line of the namespace that has used the least time lately; of several, of the one that waits longest.
// The lock is held.
func (l *long) first() int {
	now := l.clock.Now()
	best, least := 0, time.Duration(-1)
	for i, namespace := range l.line {
		if used := l.of[namespace].used(now); least < 0 || used < least {
			best, least = i, used
		}
	}
	return best
}

// account notes how long a resolution took, whatever came of it.
func (l *long) account(namespace string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.of[namespace]; r != nil {
		r.ran = append(r.ran, ran{l.clock.Now(), took})
	}
}

// finish keeps what came of a job, unless that was canceled, and wakes the namespace.
func (l *long) finish(namespace string, key digest, j *job, answer resolver.Answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of[namespace]
	if r == nil || r.job != j {
		return
	}
	r.job = nil
	var exceeded *resolver.LimitError
	switch {
	case errors.As(err, &exceeded):
		r.told = j.asking.all()
		r.stopped, r.heads, r.until = exceeded, answer.Heads, l.clock.Now().Add(min(firstPause<<min(r.failed, 8), lastPause))
		r.failed++
	case err != nil:
		return // the program ends
	default:
		r.stopped, r.failed = nil, 0
		l.answers.put(namespace, &known{key: key, told: j.asking.all(), Answer: &answer, plans: map[string]resolver.Plan{}})
	}
	if l.queue != nil {
		l.queue.Add(request(namespace))
	}
}

// wakes is a source: it wakes a namespace when its long resolution has ended.
func (l *long) wakes(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = queue
	return nil
}
