package csv

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// A reconcile is one turn: it reads, writes and deletes at most turnSize ServiceAccounts, roles and bindings, and begins with no further
// one after turnTime, because other users can make each request slow. The next turn begins after turnPause. Meanwhile, other namespaces
// have their turn, and the cache observes what was written (docs/adr/0080).
const (
	turnSize  = deployment.MaxWritten
	turnTime  = 10 * time.Second
	turnPause = 250 * time.Millisecond
	// longestTurn is the time for a turn that has changed no Deployment yet.
	longestTurn = time.Minute
)

// task is a purpose for which objects are written or deleted in turns.
type task string

const (
	taskWrite    task = "write"
	taskPrune    task = "prune"
	taskPublish  task = "publish"
	taskRetire   task = "retire"
	taskFinalize task = "finalize"
)

// progress describes what has been done to the objects of a task.
func (t task) progress() string {
	return map[task]string{
		taskWrite:    "ServiceAccounts, roles and bindings have been written",
		taskPrune:    "roles and bindings that are no longer needed have been removed",
		taskPublish:  "ClusterRoles for the provided APIs have been written",
		taskRetire:   "roles and bindings of earlier versions have been removed",
		taskFinalize: "objects outside the garbage collection have been removed",
	}[t]
}

// errTurn ends a turn before all objects of a task have been tried.
var errTurn = errors.New("the other objects have to wait for their turn")

// outcome is the result for one object: whether it was changed, or why it was refused.
type outcome struct {
	changed bool
	refused error
}

// run is what the turns of one run have done. A run ends with the first turn that leaves no object for another one, so most runs have
// one turn. Nothing depends on a run being remembered: without it, the next turn begins again.
type run struct {
	uid        types.UID
	generation int64
	// outcomes contains the results for objects that the cache does not show in the desired state: it may not have observed them yet,
	// or they were refused. Without them, each turn would begin with the same objects. A turn drops the results that it does not need.
	outcomes map[string]outcome
	// compared is the number of objects that have been compared with existing ones.
	compared int
	// all is the number of objects of each task when the run reached it, and changed is true once an object was changed.
	all     map[task]int
	changed bool
}

// turn is the part of a run that one reconcile contributes. The zero value is the first turn of a run without a time limit.
type turn struct {
	run

	// before contains the results of the earlier turns.
	before map[string]outcome
	clock  clock.PassiveClock
	end    time.Time
	// used is the number of objects for which requests were sent, and tried the number of those whose result is known, by task.
	used  int
	tried map[task]int
	// unfinished is true if another turn follows. lags is true if the cache does not show what an earlier turn has done, and refused if
	// an object was refused in an earlier turn.
	unfinished, lags, refused bool
}

// beginTurn continues the run of the CSV if there is one for the same spec.
func (r *Reconciler) beginTurn(s *scope) {
	was := r.turns.Delete(client.ObjectKeyFromObject(s.csv))
	s.turn = turn{clock: r.Clock, end: s.facts.Now.Add(turnTime)}
	if was.uid == s.csv.UID && was.generation == s.csv.Generation {
		s.turn.run, s.turn.before = was, was.outcomes
		s.turn.outcomes = nil
	}
}

// endTurn keeps the run if another turn follows. Objects that an earlier turn has changed or that were refused then are tried again
// later, because they may have changed since without causing another reconcile.
func (r *Reconciler) endTurn(s *scope) {
	if s.turn.unfinished {
		s.turn.uid, s.turn.generation = s.csv.UID, s.csv.Generation
		r.turns.Set(client.ObjectKeyFromObject(s.csv), s.turn.run)
	}
	if s.turn.unfinished || s.turn.lags {
		s.wakeAfter(turnPause)
	}
	if s.turn.refused {
		s.wakeAfter(maxBackoff)
	}
}

// isOver reports whether the turn may try no further object. Each turn may try at least one.
func (t *turn) isOver() bool {
	return t.used >= turnSize || t.used > 0 && t.clock != nil && !t.clock.Now().Before(t.end)
}

// isLong reports whether the turn may try no further Deployment, of which it has changed a number. If it has changed none, it can take
// longer, because the next turn begins with the same Deployments.
func (t *turn) isLong(changed int) bool {
	end := t.end
	if changed == 0 {
		end = end.Add(longestTurn - turnTime)
	}
	return t.clock != nil && !t.clock.Now().Before(end)
}

func turnKey(what task, obj client.Object) string {
	return string(what) + " " + apply.Describe(obj) + " " + string(obj.GetUID())
}

// hasChanged reports whether an earlier turn of the run has changed an object, and the cache does not show this.
func (t *turn) hasChanged(what task, obj client.Object) bool {
	return t.before[turnKey(what, obj)].changed
}

// do calls act for an object of a task, and reports whether it changed the object in this turn. If an earlier turn has done so, do only
// returns its refusal. It returns errTurn if the turn is over.
func (t *turn) do(what task, obj client.Object, act func() (changed bool, err error)) (changed bool, err error) {
	key := turnKey(what, obj)
	if was, known := t.before[key]; known {
		t.lags, t.refused = t.lags || was.changed, t.refused || was.refused != nil
		t.keep(what, key, was)
		return false, was.refused
	}
	if t.isOver() {
		return false, errTurn
	}
	t.used++
	changed, err = act()
	switch {
	case err == nil:
		t.changed = t.changed || changed
		t.keep(what, key, outcome{changed: changed})
	case errors.Is(err, errRunning): // no request was sent
		t.used--
	case kit.Is[*execute.RemainingError](err): // it is tried in each turn, because its permissions must not remain (docs/adr/0039)
	case isReported(err) || execute.Occupies(err):
		t.keep(what, key, outcome{refused: remembered(err)})
	}
	return changed && err == nil, err
}

// remove is like do for an object that is removed.
func (t *turn) remove(what task, obj client.Object, act func() error) error {
	_, err := t.do(what, obj, func() (bool, error) {
		err := act()
		return err == nil, err
	})
	return err
}

func (t *turn) keep(what task, key string, result outcome) {
	if t.outcomes == nil {
		t.outcomes = map[string]outcome{}
	}
	if t.tried == nil {
		t.tried = map[task]int{}
	}
	t.outcomes[key] = result
	t.tried[what]++
}

// part returns which of n objects are compared in this turn: those from one index to another. compared records that they have been.
func (t *turn) part(n int) (from, to int) {
	from = min(t.compared, n)
	to = min(n, from+max(0, turnSize-t.used))
	t.used += to - from
	return from, to
}

// interrupt ends the turn. n is the number of objects of the task with which the turn began. The progress is shown once the run has
// changed something. Its text changes at most ten times per task, because each change is a write.
func (s *scope) interrupt(what task, n int) {
	t := &s.turn
	if t.all == nil {
		t.all = map[task]int{}
	}
	t.all[what] = max(t.all[what], n)
	t.unfinished = true
	if t.changed {
		left := deployment.Unfinished{Done: max(0, t.all[what]-n+t.tried[what]), All: t.all[what], What: what.progress()}
		s.facts.Progress = left.Error()
	}
}

// continueLater requests the reconcile that writes the next Deployments of an install, and returns the transition that reports
// the progress. The message changes at most ten times, because each change is a write.
func (s *scope) continueLater(t Transition, left *deployment.Unfinished) Transition {
	s.wakeAfter(turnPause)
	if t.Phase == phaseInstalling {
		t.Reason = reasonWaiting
		t.Message = fmt.Sprintf(messageInstalling, left)
	}
	return t
}

// pastRefusal is a refusal of an earlier turn: its text, of limited length, and an error that shows of which kind it is.
type pastRefusal struct {
	text string
	kind error
}

func (e *pastRefusal) Error() string { return e.text }
func (e *pastRefusal) Unwrap() error { return e.kind }

// remembered returns what has to be known about a refusal in later turns. Others choose the length of its text.
func remembered(err error) error {
	out := &pastRefusal{text: strings.Clone(status.Cut(err.Error(), maxLines))}
	var answer error
	if st := apierrors.APIStatus(nil); errors.As(err, &st) {
		is := st.Status()
		short := metav1.Status{Reason: is.Reason, Code: is.Code, Message: strings.Clone(status.Cut(is.Message, maxLines))}
		if is.Details != nil {
			short.Details = &metav1.StatusDetails{Group: is.Details.Group, Kind: is.Details.Kind}
		}
		answer = &apierrors.StatusError{ErrStatus: short}
	}
	switch {
	case isMissingPermissions(err):
		out.kind = &MissingPermissionsError{}
	case kit.Is[*apply.DelayedError](err):
		out.kind = &apply.DelayedError{}
	case kit.Is[*apply.TooLargeError](err):
		out.kind = &apply.TooLargeError{}
	case apply.IsCollision(err):
		out.kind = &apply.CollisionError{}
	case kit.Is[*execute.RefusedError](err):
		out.kind = &execute.RefusedError{Message: out.text, Err: answer}
	default:
		out.kind = answer
	}
	return out
}
