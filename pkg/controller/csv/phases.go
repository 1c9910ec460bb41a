package csv

import (
	"cmp"
	"fmt"
	"strings"
)

// replaced hands the operator over to the replacing CSV, and removes this CSV once a later version has succeeded. The
// oldest CSV is removed first, because an older version is found through the versions that replace it. The phase is
// written before the CSV is deleted.
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

// beingReplaced returns the message of phase Replacing. For a failed CSV, it states that the OperatorGroup allows
// replacing failed CSVs (OLM v0 contract).
func beingReplaced(f Facts) string {
	forward := fmt.Sprintf(messageFailForward, f.ReplacedBy)
	if f.Forward && f.CSV.Status.Phase == phaseFailed || strings.HasPrefix(f.CSV.Status.Message, forward) {
		return forward
	}
	return fmt.Sprintf(messageBeingReplaced, f.ReplacedBy)
}

// waiting returns the transition of a CSV whose requirements are not known yet. Its message names what the CSV waits
// for.
func waiting(f Facts) Transition {
	if f.HeldBack != "" {
		return to(phasePending, reasonNotUpgradeable, fmt.Sprintf(messageNotUpgradeable, f.HeldBack))
	}
	message := messageUnknown
	if f.Waits != "" {
		message += ": " + f.Waits
	}
	return to(phasePending, reasonRequirementsUnknown, message)
}

// pending returns the transition of a CSV in phase Pending, which waits for the requirements, including the operator's
// own ServiceAccounts and roles.
func pending(f Facts) Transition {
	if t := installable.failing(f); t != nil {
		return *t
	}
	return to(phaseInstallReady, reasonRequirementsMet, messageMet)
}

// installReady returns the transition of a CSV in phase InstallReady. It writes the Deployments unless they are
// unchanged. If the write would be refused, the CSV fails.
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

// installing returns the transition of a CSV in phase Installing, which waits until the Deployments are available. If a
// Deployment is missing or differs, the transition immediately writes it again. Usually, only the cache is outdated,
// and the write changes nothing.
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

// succeeded returns the transition of an installed operator, which changes the phase if the operator is no longer
// healthy.
func succeeded(f Facts) Transition {
	if t := healthy.failing(f); t != nil {
		return *t
	}
	return success(f)
}

// success returns the transition of an operator that runs. The reason also records when the status first reported that
// the operator exceeds its account in its own namespace or in the whole cluster.
func success(f Facts) Transition {
	reason, notes := reasonInstallSuccessful, append(f.exceeding(), f.Notes...)
	if f.Exceeding != "" {
		reason = reasonExceedsAccount
	}
	message := messageSucceeded
	if len(notes) > 0 {
		message += "; " + strings.Join(notes, "; ")
	}
	return to(phaseSucceeded, reason, message)
}

// failed returns the transition of a CSV in phase Failed, which leaves the phase if the reason for the failure no
// longer applies.
func failed(f Facts) Transition {
	switch f.CSV.Status.Reason {
	case reasonUnsupportedGroup:
		return to(phasePending, reasonRequirementsUnknown, messageModesNow)
	case reasonOwnerConflictGroups:
		return to(phasePending, reasonRequirementsUnknown, messageNoIntersection)
	case reasonStaticAPIs:
		return to(phasePending, reasonRequirementsUnknown, messageStaticSupports)
	case reasonNoOperatorGroup, reasonTooManyGroups, reasonNoTargets, reasonInvalidModes, reasonInvalidStrategy,
		reasonInvalidWebhook, reasonAPIServiceFailed, reasonOwnerConflict:
		return to(phasePending, reasonRequirementsUnknown, messageUnknown)
	case reasonExceedsAccount:
		return failedByExcess(f)
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
		return to(phaseFailed, reasonRequirementsNotMet, message).requeueAfter(recheckAfter(f, f.Prepared))
	}
	return to(phasePending, reasonRequirementsUnknown, messageUnknown)
}

// failedByExcess leaves phase Failed when the account may write the operator's roles and bindings again. The operator's
// Pods continue to run without the permissions.
func failedByExcess(f Facts) Transition {
	switch {
	case f.Unsynced:
		return stay(f)
	case f.Excess != nil:
		return to(phaseFailed, reasonExceedsAccount, fmt.Sprintf(messageShrunk, f.Excess))
	}
	return to(phasePending, reasonRequirementsUnknown, messageUnknown)
}

// failedByRefusal leaves phase Failed only after a dry run has shown that the Deployments would now be accepted. Errors
// that the CSV's author must fix are never retried. Refusals are retried infrequently if no watch reports when their
// cause is removed (a quota, a policy). If the write is refused although every dry run was accepted, retries are
// delayed as for other failures. The same applies if a dry run has no result, because a webhook may never decide on dry runs.
func failedByRefusal(f Facts) Transition {
	undecided := f.Refused == nil && f.CallRefused == nil && isUndecided(f.Probe)
	if why := cmp.Or(f.Refused, f.CallRefused, f.Probe); why != nil && !undecided {
		return to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, why)).requeueAfter(recheckAfter(f, why))
	}
	if left := backoff(f); left > 0 && (undecided || !f.WasRefused && wasRetried(f)) {
		return stay(f).requeueAfter(left)
	}
	return to(phasePending, reasonClusterChange, messageClusterChange)
}

// wasRetried reports whether a refusal has been retried since the last success.
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
		return stay(f).requeueAfter(left)
	}
	return to(phasePending, reasonNeedsReinstall, messageReinstall)
}

func failedByHealth(f Facts) Transition {
	switch {
	case running(f):
		return success(f)
	case !f.Deployments.Installed:
		return to(phasePending, reasonNeedsReinstall, messageReinstall)
	case f.CSV.Status.Reason == reasonInstallCheckFailed: // the written objects are correct, so a retry would change nothing
		return stay(f)
	}
	return to(phasePending, reasonNeedsReinstall, fmt.Sprintf(messageInstalling, f.Deployments.Problem))
}

// running reports whether the operator is available and its webhooks and APIs are in the desired state.
func running(f Facts) bool { return f.Deployments.Ready && !f.Calls.Missing && !f.Calls.Unavailable }
