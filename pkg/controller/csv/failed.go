package csv

import "fmt"

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
	case reasonInstallCheckFailed:
		return failedByWaiting(f)
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
			message += ": " + oneLine(f.Prepared)
		}
		return to(phaseFailed, reasonRequirementsNotMet, message)
	}
	return to(phasePending, reasonRequirementsUnknown, messageUnknown)
}

// failedByRefusal continues only after a dry run has shown that the Deployments would now be accepted. Errors that
// the CSV's author must fix are never retried; those that no watch reports (a quota, a policy) are retried rarely.
func failedByRefusal(f Facts) Transition {
	why := f.Refused
	if why == nil {
		why = f.CallRefused
	}
	if why == nil {
		why = f.Probe
	}
	if why == nil {
		return to(phasePending, reasonClusterChange, messageClusterChange)
	}
	t := to(phaseFailed, reasonNoRetry, fmt.Sprintf(messageStrategyFailed, why))
	t.After = recheckAfter(f, why)
	return t
}

func failedByFailure(f Facts) Transition {
	if left := backoff(f); left > 0 {
		t := stay(f)
		t.After = left
		return t
	}
	return to(phasePending, reasonNeedsReinstall, messageReinstall)
}

// failedByWaiting does not retry automatically, because what was written is correct.
func failedByWaiting(f Facts) Transition {
	switch {
	case running(f):
		return success(f)
	case !f.Deployments.Installed:
		return to(phasePending, reasonNeedsReinstall, messageReinstall)
	}
	return stay(f)
}

func failedByHealth(f Facts) Transition {
	switch {
	case running(f):
		return success(f)
	case !f.Deployments.Installed:
		return to(phasePending, reasonNeedsReinstall, messageReinstall)
	}
	return to(phasePending, reasonNeedsReinstall, fmt.Sprintf(messageInstalling, f.Deployments.Problem))
}

// running reports whether the operator is available, and its webhooks and APIs are in the desired state.
func running(f Facts) bool { return f.Deployments.Ready && !f.Calls.Missing && !f.Calls.Unavailable }
