package csv

import (
	"errors"
	"fmt"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
)

const (
	// installTimeout is the contract's.
	installTimeout = 5 * time.Minute
	// Bounds on the time to another try.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// Next decides. What concerns every phase comes first, in the order in which a user sees it.
func Next(f Facts) Transition {
	if f.ReplacedBy != "" {
		return replaced(f)
	}
	if t, wrong := cannotRun(f); wrong {
		return t
	}
	if f.Account != nil && f.CSV.Status.Phase != phaseSucceeded {
		return to(phasePending, operatorsv1alpha1.ConditionReason(f.Account.Reason), f.Account.Message)
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
	case phaseReplacing, phaseDeleting: // what replaced it is gone
		return to(phasePending, reasonRequirementsUnknown, messageUnknown)
	}
	return stay(f)
}

// cannotRun is what is wrong with the CSV itself, or with where it is, whoever installs it.
func cannotRun(f Facts) (Transition, bool) {
	switch {
	case f.Group != nil:
		return to(phaseFailed, f.Group.Reason, f.Group.Message), true
	case f.Strategy != nil:
		return to(phaseFailed, reasonInvalidStrategy, fmt.Sprintf(messageInvalidStrategy, oneLine(f.Strategy))), true
	case f.Webhooks != nil:
		return to(phaseFailed, reasonInvalidWebhook, oneLine(f.Webhooks)), true
	case f.APIs != nil:
		return to(phaseFailed, reasonAPIServiceFailed, oneLine(f.APIs)), true
	case f.Taken != nil:
		return to(phaseFailed, reasonOwnerConflict, messageNoAdoption+": "+oneLine(f.Taken)), true
	}
	return Transition{}, false
}

// Failed is where a ClusterServiceVersion goes whose Deployments could not be written. ok is false for
// a failure that says nothing about the install: it is to be retried as it is.
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

// refusal says whether trying again is pointless until somebody changes something: rights, the
// object in the way, a namespace that is not there, or the CSV itself.
func refusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apply.IsCollision(err)
}

// backoff is the time until the next round of install, failure and repair: as long after the last
// failure as the trouble had lasted by then, so that rounds become rarer without a counter.
func backoff(f Facts) time.Duration {
	last := f.CSV.Status.LastTransitionTime
	if last == nil {
		return 0
	}
	delay := clamp(last.Sub(troubleSince(f.CSV)))
	return max(0, last.Add(delay).Sub(f.Now))
}

// again is the time until another look at what refuses without a reason that a watch could see gone
// (a quota, a policy): as long as the phase has lasted. What only a person can mend is not looked at
// again: 0.
func again(f Facts, err error) time.Duration {
	var lacks *LacksError
	last := f.CSV.Status.LastTransitionTime
	if last == nil || errors.As(err, &lacks) || !apierrors.IsForbidden(err) {
		return 0
	}
	return clamp(f.Now.Sub(last.Time))
}

func clamp(d time.Duration) time.Duration { return min(max(d, minBackoff), maxBackoff) }

// troubleSince is the time of the oldest condition since the last success, as far as is remembered.
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

// oneLine is an error for a message: of many lines as many as fit.
func oneLine(err error) string {
	parts := strings.Split(err.Error(), "\n")
	return status.Lines(parts, max(maxLines, len(parts[0])))
}
