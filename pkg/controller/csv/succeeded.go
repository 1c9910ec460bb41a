package csv

import (
	"fmt"
	"strings"
)

// succeeded monitors an installed operator.
func succeeded(f Facts) Transition {
	switch {
	case f.Unsynced:
		return stay(f)
	case f.Unmet:
		return to(phaseFailed, reasonRequirementsNotMet, messageNoLongerMet)
	case f.Rolling && f.Refused == nil:
		return to(phasePending, reasonNeedsCertRotation, messageCertRotation)
	case !f.Deployments.Ready:
		return to(phaseFailed, reasonComponentUnhealthy, fmt.Sprintf(messageInstalling, f.Deployments.Problem))
	case f.Calls.Unavailable:
		return to(phaseFailed, reasonAPIServiceIssue, f.Calls.Problem)
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
