package csv

import (
	"cmp"
	"fmt"
	"strings"
)

// replaced stops managing the operator in favor of the replacing CSV, and removes this CSV once a later version has
// succeeded, oldest first: a version is found through the one that replaces it. The phase is written before the CSV
// is deleted.
func replaced(f Facts) Transition {
	switch {
	case !f.Replaced:
		return to(phaseReplacing, reasonBeingReplaced, beingReplaced(f))
	case f.CSV.Status.Phase != phaseDeleting:
		return to(phaseDeleting, reasonReplaced, messageReplaced)
	}
	t := stay(f)
	t.Remove = f.Older == ""
	return t
}

// beingReplaced returns the message, which for a failed CSV says that its OperatorGroup allows it (contract 1.7).
func beingReplaced(f Facts) string {
	forward := fmt.Sprintf(messageFailForward, f.ReplacedBy)
	if f.Forward && f.CSV.Status.Phase == phaseFailed || f.CSV.Status.Message == forward {
		return forward
	}
	return fmt.Sprintf(messageBeingReplaced, f.ReplacedBy)
}

// waiting reports what the CSV waits for.
func waiting(f Facts) Transition {
	message := messageUnknown
	if f.Waits != "" {
		message += ": " + f.Waits
	}
	return to(phasePending, reasonRequirementsUnknown, message)
}

// pending waits for the requirements, including the operator's own ServiceAccounts and roles.
func pending(f Facts) Transition {
	if t := installable.failing(f); t != nil {
		return *t
	}
	return to(phaseInstallReady, reasonRequirementsMet, messageMet)
}

// installReady writes the Deployments, unless they are unchanged or known to be refused.
func installReady(f Facts) Transition {
	if f.Refused != nil {
		return to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, f.Refused))
	}
	if !f.installs() {
		return pending(f)
	}
	t := to(phaseInstalling, reasonInstallSuccessful, messageWritten)
	t.Install = !f.Deployments.Untouched
	return t
}

// installing waits until the Deployments are available. A Deployment that is missing or differs is written again
// immediately: usually the cache has not observed it yet, and then nothing is written.
func installing(f Facts) Transition {
	d := f.Deployments
	if running(f) {
		return success(f)
	}
	left := installTimeout
	if last := f.CSV.Status.LastTransitionTime; last != nil {
		left = last.Add(installTimeout).Sub(f.Now)
	}
	problem := cmp.Or(f.Calls.Problem, d.Problem)
	switch {
	case left <= 0:
		return to(phaseFailed, reasonInstallCheckFailed, messageTimeout+": "+problem)
	case d.Stuck:
		return to(phaseFailed, reasonInstallCheckFailed, fmt.Sprintf(messageInstallFailed, d.Problem))
	case !d.Installed && f.Refused != nil:
		return to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, f.Refused))
	case f.CallRefused != nil:
		return to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, f.CallRefused))
	}
	if f.Due && !f.Unsynced && !f.installs() {
		return pending(f)
	}
	t := to(phaseInstalling, reasonWaiting, fmt.Sprintf(messageInstalling, problem))
	t.Install = f.Due && !f.Unsynced
	t.After = left
	return t
}

// succeeded monitors an installed operator.
func succeeded(f Facts) Transition {
	if t := healthy.failing(f); t != nil {
		return *t
	}
	return success(f)
}

func success(f Facts) Transition {
	message := messageSucceeded
	if len(f.Notes) > 0 {
		message += "; " + strings.Join(f.Notes, "; ")
	}
	return to(phaseSucceeded, reasonInstallSuccessful, message)
}

// failed checks whether the reason of the failure no longer applies.
func failed(f Facts) Transition {
	switch f.CSV.Status.Reason {
	case reasonUnsupportedGroup:
		return to(phasePending, reasonRequirementsUnknown, messageModesNow)
	case reasonNoOperatorGroup, reasonTooManyGroups, reasonNoTargets, reasonInvalidModes, reasonInvalidStrategy,
		reasonInvalidWebhook, reasonAPIServiceFailed, reasonOwnerConflict:
		return to(phasePending, reasonRequirementsUnknown, messageUnknown)
	case reasonRequirementsNotMet:
		return failedByRequirements(f)
	case reasonNoRetry:
		return failedByRefusal(f)
	case reasonComponentFailed:
		return failedByFailure(f)
	}
	return failedByHealth(f)
}

func failedByRequirements(f Facts) Transition {
	switch {
	case f.Unsynced:
		return stay(f)
	case f.Unmet:
		message := messageStillNotMet
		if f.Prepared != nil {
			message += ": " + summary(f.Prepared)
		}
		return to(phaseFailed, reasonRequirementsNotMet, message)
	}
	return to(phasePending, reasonRequirementsUnknown, messageUnknown)
}

// failedByRefusal continues only after a dry run has shown that the Deployments would now be accepted. Errors that the
// CSV's author must fix are never retried; those that no watch reports (a quota, a policy) are retried rarely. If the
// write is refused although every dry run was accepted, retries are delayed as after other failures.
func failedByRefusal(f Facts) Transition {
	if why := cmp.Or(f.Refused, f.CallRefused, f.Probe); why != nil {
		return to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, why)).again(recheckAfter(f, why))
	}
	if left := backoff(f); left > 0 && !f.WasRefused && wasRetried(f) {
		return stay(f).again(left)
	}
	return to(phasePending, reasonClusterChange, messageClusterChange)
}

// wasRetried reports whether a refusal was retried since the last success.
func wasRetried(f Facts) bool {
	conditions := f.CSV.Status.Conditions
	for i := len(conditions) - 1; i >= 0 && conditions[i].Phase != phaseSucceeded; i-- {
		if conditions[i].Reason == reasonClusterChange {
			return true
		}
	}
	return false
}

func failedByFailure(f Facts) Transition {
	if left := backoff(f); left > 0 {
		return stay(f).again(left)
	}
	return to(phasePending, reasonNeedsReinstall, messageReinstall)
}

func failedByHealth(f Facts) Transition {
	switch {
	case running(f):
		return success(f)
	case !f.Deployments.Installed:
		return to(phasePending, reasonNeedsReinstall, messageReinstall)
	case f.CSV.Status.Reason == reasonInstallCheckFailed: // what was written is correct: a retry would change nothing
		return stay(f)
	}
	return to(phasePending, reasonNeedsReinstall, fmt.Sprintf(messageInstalling, f.Deployments.Problem))
}

// running reports whether the operator is available, and its webhooks and APIs are in the desired state.
func running(f Facts) bool { return f.Deployments.Ready && !f.Calls.Missing && !f.Calls.Unavailable }
