package csv

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

const (
	// installTimeout is the time that the contract allows for the Deployments to become available.
	installTimeout = 5 * time.Minute
	// Bounds of the delay before a retry.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// minDelay is the first delay after an apply.DelayedError.
	minDelay = 10 * time.Second
)

// Next returns the transition that follows from the facts. It does not modify the facts.
func Next(f Facts) Transition {
	t := reportExcess(f, reportProgress(f, decide(f)))
	if delay := cmp.Or(f.Prepared, f.Postponed); t.After == 0 && isRechecked(delay) {
		t.After = recheckAfter(f, delay) // applies in every phase, because no watch reports when the object can be written
	}
	return t
}

// reportProgress appends how many objects have been written or removed to the message of a transition, and removes what an earlier
// reconcile appended.
func reportProgress(f Facts, t Transition) Transition {
	if t.Phase == f.CSV.Status.Phase && t.Message == f.CSV.Status.Message {
		t.Message, _, _ = strings.Cut(t.Message, separator+noteProgress)
	}
	if f.Progress != "" {
		t.Message += separator + noteProgress + f.Progress
	}
	return t
}

// noteProgress is the prefix of reports about work that another reconcile continues.
const noteProgress = "in progress: "

// reportExcess appends the permissions that exceed the account to the message of a transition, so that no other problem
// hides them and the commands that remove them. If the contract defines the message, the event contains them.
func reportExcess(f Facts, t Transition) Transition {
	if t.Phase != phaseSucceeded && t.Phase == f.CSV.Status.Phase && t.Message == f.CSV.Status.Message && !f.Unsynced {
		t.Message, _, _ = strings.Cut(t.Message, separator+noteExceeds) // the report of an earlier reconcile
	}
	if strings.Contains(t.Message, noteExceeds) {
		return t
	}
	for _, exceeding := range f.exceeding() {
		report := strings.TrimPrefix(exceeding, noteExceeds)
		switch {
		case strings.Contains(t.Message, report) || strings.Contains(t.Detail, report):
		case t.Detail == "":
			t.Message += separator + exceeding
		default:
			t.Detail += separator + exceeding
		}
	}
	return t
}

// separator separates the parts of a message.
const separator = "; "

// inEveryPhase returns the transition that does not depend on the phase, or nil.
func inEveryPhase(f Facts) *Transition {
	if f.ReplacedBy != "" {
		return new(replaced(f))
	}
	if t := eligible.failing(f); t != nil {
		return t
	}
	if f.Shrunk {
		return new(to(phaseFailed, reasonExceedsAccount, strings.Join(f.exceeding(), separator)))
	}
	if f.Account != nil && f.CSV.Status.Phase != phaseSucceeded {
		return new(to(phasePending, operatorsv1alpha1.ConditionReason(f.Account.Reason), f.Account.Message))
	}
	if f.Unwritten && f.CSV.Status.Phase != phaseNone {
		return new(stay(f))
	}
	return nil
}

// decide returns the transition without the delay that Next may add. The checks that apply in every phase come first.
func decide(f Facts) Transition {
	if t := inEveryPhase(f); t != nil {
		return *t
	}
	switch f.CSV.Status.Phase {
	case phaseNone:
		return waiting(f)
	case phasePending:
		return pending(f)
	case phaseInstallReady:
		return installReady(f)
	case phaseInstalling:
		return installing(f)
	case phaseSucceeded:
		return succeeded(f)
	case phaseFailed:
		return failed(f)
	case phaseReplacing, phaseDeleting: // the replacing version was deleted
		return to(phasePending, reasonRequirementsUnknown, messageUnknown)
	}
	return stay(f)
}

// Failed returns the transition of a ClusterServiceVersion whose Deployments could not be written because of err. ok is
// false if err does not change the phase and the write is only retried.
func Failed(err error) (t Transition, ok bool) {
	var account *scoped.Error
	switch {
	case errors.As(err, &account):
		return to(phasePending, operatorsv1alpha1.ConditionReason(account.Reason), account.Message), true
	case refusal(err):
		return to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, err)), true
	case apierrors.IsConflict(err):
		return Transition{}, false
	}
	return to(phaseFailed, reasonComponentFailed, fmt.Sprintf(messageStrategyFailed, err)), true
}

// refusal reports whether err is a refusal, which means that a retry is pointless until permissions, a colliding
// object, a missing namespace, a quota, a policy, a webhook or the CSV itself has changed.
func refusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apply.IsCollision(err)
}

// isUndecided reports whether a dry run has no result: it was not refused, or by something that does not decide on dry runs.
func isUndecided(err error) bool {
	return err != nil && (!isReported(err) || preflight.IsUndecided(err))
}

// isReported reports whether an error from prepare is reported in the status while the reconcile continues. Users can
// cause such errors in a single target namespace, which must not stop the operator in the other targets.
func isReported(err error) bool {
	return refusal(err) || isMissingPermissions(err) || kit.Is[*apply.DelayedError](err)
}

// backoff returns the remaining delay before the next install attempt. The delay starts at the last failure and is as
// long as the problem had lasted by then, so that the intervals between attempts grow without a counter.
func backoff(f Facts) time.Duration {
	last := f.CSV.Status.LastTransitionTime
	if last == nil {
		return 0
	}
	delay := clamp(last.Sub(troubleSince(f.CSV)))
	return max(0, last.Add(delay).Sub(f.Now))
}

// isRechecked reports whether an object is tried again after some time in every phase.
func isRechecked(err error) bool {
	return kit.Is[*apply.DelayedError](err) || preflight.AtAdmission(err) != nil
}

// recheckAfter returns the delay before rechecking a refusal if no watch reports when its cause is removed (a quota, a
// policy, a webhook, a sealed Role). The delay is as long as the phase has lasted. It is 0, which means no recheck, for problems
// that only a user can fix.
func recheckAfter(f Facts, err error) time.Duration {
	last := f.CSV.Status.LastTransitionTime
	delayed := kit.Is[*apply.DelayedError](err)
	switch {
	case last == nil || isMissingPermissions(err):
		return 0
	case delayed:
		return max(minDelay, clamp(f.Now.Sub(last.Time)))
	case !apierrors.IsForbidden(err) && preflight.AtAdmission(err) == nil:
		return 0
	}
	return clamp(f.Now.Sub(last.Time))
}

func clamp(d time.Duration) time.Duration { return min(max(d, minBackoff), maxBackoff) }

// troubleSince returns the time of the oldest condition since the last success.
func troubleSince(csv *operatorsv1alpha1.ClusterServiceVersion) time.Time {
	since := csv.Status.LastTransitionTime.Time
	for i := len(csv.Status.Conditions) - 1; i >= 0; i-- {
		c := csv.Status.Conditions[i]
		if c.Phase == phaseSucceeded {
			break
		}
		if c.LastTransitionTime != nil && c.LastTransitionTime.Time.Before(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}
